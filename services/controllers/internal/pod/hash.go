package pod

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"
)

// TemplateHash names the templates of Deployments and DaemonSets, as Kubernetes does: equal templates have equal hashes, however they were read.
// collisions tells apart templates whose hashes clash.
func TemplateHash(t *corev1.PodTemplateSpec, collisions *int32) string {
	// What is hashed is the Go value. Only after the way through the encoding does it depend on nothing but what the template says: a
	// quantity may remember its text, and what is empty may be nil or not.
	var read corev1.PodTemplateSpec
	data, err := t.Marshal()
	if err == nil {
		err = read.Unmarshal(data)
	}
	if err != nil {
		panic("pod template does not encode: " + err.Error())
	}
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, dump.ForHash(read))
	if collisions != nil {
		_, _ = h.Write(binary.LittleEndian.AppendUint32(make([]byte, 0, 8), uint32(*collisions))[:8])
	}
	return rand.SafeEncodeString(fmt.Sprint(h.Sum32()))
}
