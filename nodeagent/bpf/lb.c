//go:build ignore

#include "socket.h"
#include "balance.h"

char LICENSE[] SEC("license") = "GPL";
