package deployment

import (
	"encoding/binary"
	"encoding/json"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
)

// hashAlphabet has no vowels and no look-alikes, so that a hash spells no
// word and survives being read aloud. 32 letters would need some; 27 do.
const hashAlphabet = "bcdfghjklmnpqrstvwxz2456789"

// templateHash names a template: equal templates have equal hashes as long as
// the API's JSON form of them is the same. collisions tells apart templates
// whose hashes clash.
func templateHash(t *corev1.PodTemplateSpec, collisions *int32) string {
	h := fnv.New64a()
	// The type has no map with keys that JSON does not sort, so this is stable.
	if err := json.NewEncoder(h).Encode(withoutHash(t)); err != nil {
		panic("pod template does not encode: " + err.Error())
	}
	if collisions != nil {
		_ = binary.Write(h, binary.LittleEndian, *collisions)
	}
	sum := h.Sum64()
	text := make([]byte, 10)
	for i := range text {
		text[i] = hashAlphabet[sum%uint64(len(hashAlphabet))]
		sum /= uint64(len(hashAlphabet))
	}
	return string(text)
}
