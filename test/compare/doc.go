// Package compare sends the requests of the files in cases/ to a howdah and compares its answers with those that
// Kubernetes' own apiserver gave to the same requests: status, headers and body.
//
// A case is a YAML file, cases/AREA/NAME.yaml, with its steps; beside it, NAME.golden.yaml holds the answers of
// kube-apiserver 1.36.3. `make compare` builds that apiserver and etcd from their modules, asks it again and writes
// the golden files; the tests of this package need neither.
package compare
