; For Chicken, whose C functions never return, and Gambit, whose frames aren't on the C stack.
(cond-expand
  (chicken (import (chicken process-context) (chicken file) (chicken base) (chicken condition))
           (define (words) (command-line-arguments))
           (define (caught thunk) (handle-exceptions e 7 (thunk))))
  (else (define (words) (cdr (command-line)))
        (define (caught thunk) (call-with-current-continuation (lambda (k) (with-exception-handler (lambda (e) (k 7)) thunk))))))

(define (tree depth) (if (= depth 0) '() (cons (tree (- depth 1)) (tree (- depth 1)))))
(define (leaves t) (if (null? t) 1 (+ (leaves (car t)) (leaves (cdr t)))))
(define (deep leave n) (if (= n 0) (leave 5) (+ 1 (deep leave (- n 1)))))
(define (sum f n) (let loop ((i 0) (s 0)) (if (= i n) s (loop (+ i 1) (+ s (f i))))))

(define (work)
  (+ (leaves (tree 10))
     (sum (lambda (i) (call-with-current-continuation (lambda (leave) (deep leave i)))) 100)
     (sum (lambda (i) (caught (lambda () (if (= 0 (modulo i 3)) (error "third" i) i)))) 100)
     (sum (lambda (i) (string-length (number->string (* i 1234567)))) 500)))

(define (rounds n)
  (if (and (> n 0) (not (file-exists? "stop")))
      (begin (display (work)) (newline) (send) (rounds (- n 1)))))

(cond-expand (gambit (define (send) (force-output))) (else (define (send) (flush-output))))
(rounds (string->number (car (reverse (words)))))
