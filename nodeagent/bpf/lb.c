//go:build ignore

#include "socket.h"
#include "packet.h"

char LICENSE[] SEC("license") = "GPL";
