#!/bin/sh
# The CNI plugin of the node agent: containerd calls it with CNI_* in the environment and no arguments.
exec /usr/local/bin/howdah cni
