//go:build ignore

#include "policy.h"

char LICENSE[] SEC("license") = "GPL";
