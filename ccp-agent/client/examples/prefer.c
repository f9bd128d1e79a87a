/* SPDX-License-Identifier: Apache-2.0 */
/* Connects with a preference for low delay, and sends its standard input.
 *
 *	cc -I../include prefer.c -o prefer && ./prefer 127.0.0.1 8080 < FILE
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include "remuda.h"

static int fail(const char *what)
{
	perror(what);
	return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	const char *algorithm = argc > 3 ? argv[3] : "remuda";
	struct sockaddr_in to;
	char chunk[4096];
	ssize_t bytes;
	int fd;

	memset(&to, 0, sizeof(to));
	to.sin_family = AF_INET;
	if (argc < 3 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1) {
		fprintf(stderr, "usage: prefer ADDRESS PORT [ALGORITHM]\n");
		return EXIT_FAILURE;
	}
	to.sin_port = htons((unsigned short)atoi(argv[2]));
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0)
		return fail("socket");
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, algorithm,
		       (socklen_t)strlen(algorithm)))
		return fail("TCP_CONGESTION");
	if (remuda_prefer(fd, 0, REMUDA_WEIGHT_MAX))
		perror("remuda_prefer: going on without a preference");
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
		return fail("connect");
	while ((bytes = read(STDIN_FILENO, chunk, sizeof(chunk))) > 0)
		if (send(fd, chunk, (size_t)bytes, MSG_NOSIGNAL) != bytes)
			return fail("send");
	close(fd);
	return EXIT_SUCCESS;
}
