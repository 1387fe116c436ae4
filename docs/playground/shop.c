/* A small server that is worth a question: it takes orders in two threads, asks redis and nginx, resolves names, writes
 * receipts, and does some things slowly or in vain. Each thread takes about 300 orders per second. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct customer {
	int id;
	const char *name;
};

struct order {
	int number;
	int items;
	const struct customer *customer;
	double total;
};

static const struct customer customers[] = { { 1, "Ada" }, { 2, "Grace" }, { 3, "Edsger" }, { 4, "Mallory" } };
static pthread_mutex_t stock_lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int stock = 1 << 30;
volatile double vat;

static void nap(long us)
{
	struct timespec time = { 0, us * 1000 };
	nanosleep(&time, NULL);
}

static int dial(int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Sends a request, and reads one piece of the answer. */
static int ask(int fd, const char *request)
{
	char answer[4096];
	if (write(fd, request, strlen(request)) < 0)
		return -1;
	return (int)read(fd, answer, sizeof(answer));
}

int ask_cache(int fd, const char *command)
{
	char line[128];
	snprintf(line, sizeof(line), "%s\r\n", command);
	return ask(fd, line);
}

int fetch_page(const char *path)
{
	char request[256];
	int fd = dial(8080);
	if (fd < 0)
		return -1;
	snprintf(request, sizeof(request), "GET %s HTTP/1.0\r\n\r\n", path);
	int length = ask(fd, request);
	close(fd);
	return length;
}

int resolve(const char *host)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *found = NULL;
	int error = getaddrinfo(host, "80", &hints, &found);
	if (!error)
		freeaddrinfo(found);
	return error;
}

void rebuild_index(int shelves)
{
	for (int part = 0; part < 10; part++) /* holds others up on busy machines, too */
		nap(300 + shelves / 10);
}

/* Every tenth order counts all shelves while it holds the lock: the other thread waits. */
void reserve(struct order *order)
{
	pthread_mutex_lock(&stock_lock);
	stock -= order->items;
	if (order->number % 10 == 0)
		rebuild_index(order->number % 500);
	pthread_mutex_unlock(&stock_lock);
}

double price(const struct order *order)
{
	double sum = 0;
	for (int i = 0; i < order->items; i++)
		sum += 2.5 + order->number % 7;
	vat = sum * 0.19;
	return sum;
}

/* Mallory's receipts go to a folder that doesn't exist. */
int save_receipt(const struct order *order)
{
	char path[128], text[128];
	snprintf(path, sizeof(path), "receipts/%s%s", order->customer->id == 4 ? "lost/" : "", order->customer->name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (fd < 0)
		return -1;
	int length = snprintf(text, sizeof(text), "%d: %.2f\n", order->number, order->total);
	if (write(fd, text, (size_t)length) < 0)
		length = -1;
	usleep(200); /* as a disk takes */
	close(fd);
	return length;
}

/* A buffer that nobody needs so big. */
void print_catalogue(int pages)
{
	char *volatile buffer = malloc((size_t)pages << 20);
	if (buffer)
		buffer[0] = 1;
	free(buffer);
}

void ask_servers(int cache, const struct order *order)
{
	char command[64];
	snprintf(command, sizeof(command), "GET user:%d", order->number % 3);
	ask_cache(cache, command);
	ask_cache(cache, order->number % 2 ? "INCR visits" : "GET cart:7");
	if (order->number % 20 == 0)
		ask_cache(cache, "SORT orders LIMIT 0 10");
	fetch_page(order->number % 3 ? "/index.html" : "/style.css");
	if (order->number % 10 == 0)
		resolve(order->number % 20 ? "stock.example" : "mail.example");
}

int take_order(int cache, struct order *order)
{
	reserve(order);
	order->total = price(order);
	ask_servers(cache, order);
	if (order->number % 10 == 0)
		print_catalogue(2 + order->number % 3);
	return save_receipt(order);
}

static void *serve(void *first)
{
	int cache = dial(6379);
	for (int number = (int)(long)first;; number += 2) {
		struct order order = { number, 1 + number % 5, &customers[number % 4], 0 };
		take_order(cache, &order);
		nap(2000);
	}
	return NULL;
}

int main(void)
{
	pthread_t other;
	pthread_create(&other, NULL, serve, (void *)2L);
	puts("ready");
	fflush(stdout);
	serve((void *)1L);
	return 0;
}
