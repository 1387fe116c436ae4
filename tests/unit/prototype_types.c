/*
 * The same functions for the compiler: its debug information of these variables has their types.
 * Of headers that aren't installed, there are none.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "prototype_types.h"

#define VARIABLE(name)                            \
	extern __typeof__(&name) type_of_##name;  \
	__typeof__(&name) type_of_##name;

#if __has_include(<zlib.h>)
#include <zlib.h>
OF_LIBZ(VARIABLE)
#endif
#if __has_include(<sqlite3.h>)
#include <sqlite3.h>
OF_LIBSQLITE3(VARIABLE)
#endif
#if __has_include(<openssl/evp.h>)
#include <openssl/aes.h>
#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/cmac.h>
#include <openssl/cms.h>
#include <openssl/conf.h>
#include <openssl/crypto.h>
#include <openssl/dh.h>
#include <openssl/dsa.h>
#include <openssl/ec.h>
#include <openssl/engine.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/pkcs7.h>
#include <openssl/provider.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/sha.h>
#include <openssl/ts.h>
#include <openssl/ui.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
OF_LIBCRYPTO(VARIABLE)
#endif
