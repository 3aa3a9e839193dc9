/* The process that holds a pod's namespaces: it sleeps, collects orphans where it is process 1 of a shared process
 * namespace, and ends when told to. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void stop(int sig) { _exit(sig == SIGINT || sig == SIGTERM ? 0 : 1); }

static void reap(int sig) {
  (void)sig;
  while (waitpid(-1, 0, WNOHANG) > 0) {
  }
}

int main(void) {
  struct sigaction on_stop = {.sa_handler = stop};
  struct sigaction on_child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
  if (sigaction(SIGINT, &on_stop, 0) || sigaction(SIGTERM, &on_stop, 0) || sigaction(SIGCHLD, &on_child, 0)) return 2;
  for (;;) pause();
}
