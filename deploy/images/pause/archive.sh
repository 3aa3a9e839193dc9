#!/bin/sh
# Packs one static program as an image archive (docker save's format): archive.sh PROGRAM NAME:TAG OUT.tar
set -eu
program=$1 name=$2 out=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/layer" && cp "$program" "$work/layer/$program"
tar -C "$work/layer" --owner=0 --group=0 --mtime=@0 --sort=name -cf "$work/layer.tar" "$program"
layer=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) arch=$(uname -m) ;; esac
printf '{"architecture":"%s","os":"linux","config":{"Entrypoint":["/%s"],"User":"65535:65535"},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
    "$arch" "$program" "$layer" >"$work/config.json"
printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$name" >"$work/manifest.json"
mkdir -p "$(dirname "$out")"
tar -C "$work" --owner=0 --group=0 --mtime=@0 -cf "$out" manifest.json config.json layer.tar
