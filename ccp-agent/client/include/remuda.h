/* SPDX-License-Identifier: Apache-2.0 */
/* Says to Remuda's agent what an application wants of a TCP socket: delay, throughput, or weights
 * between. A policy that reads it picks the congestion control by it. The header is all there is.
 *
 *	int fd = socket(AF_INET, SOCK_STREAM, 0);
 *	if (remuda_prefer(fd, 0, 1000))
 *		perror("it goes on without");
 *
 * It may be said before the socket connects, after it, and again. The descriptor is passed to the
 * agent, which looks at whose it is and closes its copy: the socket must be of the caller's user,
 * or the caller root. Nothing of the connection changes when there is no agent, or it refuses.
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

/* Where an agent listens, unless its run directory is another one */
#define REMUDA_SOCKET "/run/remuda.sock"
/* An environment variable with another path */
#define REMUDA_SOCKET_VARIABLE "REMUDA_SOCKET"
/* The largest weight */
#define REMUDA_WEIGHT_MAX 1000
/* An agent that does not take or answer a request for so long has none of it */
#define REMUDA_TIMEOUT_S 2
#define REMUDA_BYTES_MAX 1024

/* A connection to the agent; -1 and errno */
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

/* One request with one descriptor, one answer into it: its length; -1 and errno */
static inline ssize_t remuda_ask(int agent, int fd, char *text, size_t bytes)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct cmsghdr *header;
	struct msghdr message;
	struct iovec part;
	ssize_t heard;

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
	heard = sendmsg(agent, &message, MSG_NOSIGNAL);
	if (heard >= 0)
		heard = recv(agent, text, bytes - 1, 0);
	/* It hangs up on who asks too often. */
	if (heard == 0 || (heard < 0 && (errno == ECONNRESET || errno == EPIPE))) {
		errno = EAGAIN;
		return -1;
	}
	if (heard > 0)
		text[heard] = '\0';
	return heard;
}

/* Says what is wanted of a socket to the agent at path: the weights of throughput and delay, in
 * thousandths, 0 to 1000 and not both 0. (1000, 1000) is the default, (0, 1000) is delay alone,
 * (1000, 0) throughput alone. Returns 0; or -1 and errno: EPERM for another user's socket, EINVAL
 * for the weights, EAGAIN if the agent is asked too often or hangs, EPROTONOSUPPORT if the socket
 * is not TCP, EOPNOTSUPP if it listens, EBADF if it is none, EPROTO if that is no agent, or why it
 * is not reached. It waits for four seconds at most.
 */
static inline int remuda_prefer_at(const char *path, int fd, unsigned int throughput_permille,
				   unsigned int delay_permille)
{
	char text[REMUDA_BYTES_MAX];
	int agent, error = 0;
	char *end = text;
	long said;

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
		said = strtol(text, &end, 10);
		error = end == text || *end != ' ' || said < 0 ? EPROTO : (int)said;
	}
	close(agent);
	errno = error;
	return error ? -1 : 0;
}

/* The same, to the agent at REMUDA_SOCKET_VARIABLE or REMUDA_SOCKET; a program that runs with
 * another user's rights does not let who started it choose.
 */
static inline int remuda_prefer(int fd, unsigned int throughput_permille,
				unsigned int delay_permille)
{
	const char *path = getauxval(AT_SECURE) ? NULL : getenv(REMUDA_SOCKET_VARIABLE);

	return remuda_prefer_at(path ? path : REMUDA_SOCKET, fd, throughput_permille,
				delay_permille);
}

#endif
