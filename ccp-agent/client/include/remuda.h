/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the preference of a TCP socket at Remuda's agent: low delay, high throughput, or weights
 * between. Policies that use preferences pick the congestion control accordingly. A program needs
 * only this header.
 *
 *	int fd = socket(AF_INET, SOCK_STREAM, 0);
 *	if (remuda_prefer(fd, 0, 1000))
 *		perror("going on without a preference");
 *
 * Set the preference before or after the socket connects, and as often as you like. The call passes
 * the descriptor to the agent, which checks the socket's user and closes its copy. The socket must
 * belong to the caller's user, unless the caller is root. If there is no agent, or the agent
 * refuses, the connection works as before.
 */
#ifndef REMUDA_H
#define REMUDA_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* Path of the agent's socket with the default run directory */
#define REMUDA_SOCKET "/run/remuda.sock"
/* The environment variable that overrides the path */
#define REMUDA_SOCKET_VARIABLE "REMUDA_SOCKET"
/* The largest weight */
#define REMUDA_WEIGHT_MAX 1000
/* Time limit for sending the request, and again for the answer */
#define REMUDA_TIMEOUT_S 2
#define REMUDA_BYTES_MAX 1024

/* Connects to the agent. Returns a descriptor; or -1 and errno */
static inline int remuda_connect(const char *path)
{
	struct timeval limit;
	struct sockaddr_un to;
	int agent, error;

	memset(&limit, 0, sizeof(limit));
	limit.tv_sec = REMUDA_TIMEOUT_S;
	memset(&to, 0, sizeof(to));
	to.sun_family = AF_UNIX;
	if (strlen(path) >= sizeof(to.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(to.sun_path, path, strlen(path));
	agent = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (agent < 0)
		return -1;
	if (setsockopt(agent, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0 &&
	    setsockopt(agent, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0 &&
	    connect(agent, (struct sockaddr *)&to, sizeof(to)) == 0)
		return agent;
	error = errno;
	close(agent);
	errno = error;
	return -1;
}

/* Sends the request in text with descriptor fd, and puts the answer into text. Returns the
 * answer's length; or -1 and errno
 */
static inline ssize_t remuda_ask(int agent, int fd, char *text, size_t bytes)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct cmsghdr *header;
	struct msghdr message;
	struct iovec part;
	ssize_t received;

	memset(&control, 0, sizeof(control));
	memset(&message, 0, sizeof(message));
	part.iov_base = text;
	part.iov_len = strlen(text);
	message.msg_iov = &part;
	message.msg_iovlen = 1;
	message.msg_control = &control;
	message.msg_controllen = sizeof(control.room);
	header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	received = sendmsg(agent, &message, MSG_NOSIGNAL);
	if (received >= 0)
		received = recv(agent, text, bytes - 1, 0);
	/* The agent hangs up on a client that sends too many requests. */
	if (received == 0 || (received < 0 && (errno == ECONNRESET || errno == EPIPE))) {
		errno = EAGAIN;
		return -1;
	}
	if (received > 0)
		text[received] = '\0';
	return received;
}

/* Sets the preference of a socket at the agent whose socket is path: the weights of throughput and
 * delay, in thousandths, 0 to 1000 and not both 0. (1000, 1000) is the default, (0, 1000) is delay
 * alone, (1000, 0) throughput alone. Returns 0; or -1 and errno: EPERM for another user's socket,
 * EINVAL for the weights, EAGAIN if the agent refuses more requests for now or hangs,
 * EPROTONOSUPPORT if fd is not TCP, EOPNOTSUPP if it listens, EBADF if it is not open, EPROTO if
 * the answer is not one of an agent, or the errno of connect(). The call takes four seconds at
 * most.
 */
static inline int remuda_prefer_at(const char *path, int fd, unsigned int throughput_permille,
				   unsigned int delay_permille)
{
	char text[REMUDA_BYTES_MAX];
	int agent, error = 0;
	char *end = text;
	long number;

	if (throughput_permille > REMUDA_WEIGHT_MAX || delay_permille > REMUDA_WEIGHT_MAX ||
	    throughput_permille + delay_permille == 0) {
		errno = EINVAL;
		return -1;
	}
	agent = remuda_connect(path);
	if (agent < 0)
		return -1;
	snprintf(text, sizeof(text), "prefer %u %u", throughput_permille, delay_permille);
	if (remuda_ask(agent, fd, text, sizeof(text)) < 0) {
		error = errno;
	} else {
		number = strtol(text, &end, 10);
		error = end == text || *end != ' ' || number < 0 ? EPROTO : (int)number;
	}
	close(agent);
	errno = error;
	return error ? -1 : 0;
}

/* Like remuda_prefer_at(), with the path in REMUDA_SOCKET_VARIABLE, or else REMUDA_SOCKET. A setuid
 * program ignores the variable, because its user could set it.
 */
static inline int remuda_prefer(int fd, unsigned int throughput_permille,
				unsigned int delay_permille)
{
	const char *path = getauxval(AT_SECURE) ? NULL : getenv(REMUDA_SOCKET_VARIABLE);

	return remuda_prefer_at(path ? path : REMUDA_SOCKET, fd, throughput_permille,
				delay_permille);
}

#endif
