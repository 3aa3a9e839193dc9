# Stands in for golang:1.26-trixie where no image registry answers: this machine's Go on Debian trixie.
# The context comes from hack/images.sh: go/ is the Go distribution, certs/ this machine's certificate authorities.
FROM debian:trixie-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates gcc git libc6-dev make \
 && rm -rf /var/lib/apt/lists/*
COPY certs/ /etc/ssl/certs/
COPY go/ /usr/local/go/
ENV GOPATH=/go GOTOOLCHAIN=local PATH=/go/bin:/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
WORKDIR /go
