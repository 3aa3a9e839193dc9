package image

// sizes are the classes of images by which a kubelet tells how long pulls take, each up to a number of bytes.
var sizes = []struct {
	most uint64
	name string
}{
	{10 << 20, "0-10MB"}, {100 << 20, "10MB-100MB"}, {500 << 20, "100MB-500MB"}, {1 << 30, "500MB-1GB"}, {5 << 30, "1GB-5GB"}, {10 << 30, "5GB-10GB"},
	{20 << 30, "10GB-20GB"}, {30 << 30, "20GB-30GB"}, {40 << 30, "30GB-40GB"}, {60 << 30, "40GB-60GB"}, {100 << 30, "60GB-100GB"},
}

// sizeClass is the class of an image; of 0 bytes are those of which the runtime does not tell the size.
func sizeClass(size uint64) string {
	if size == 0 {
		return "N/A"
	}
	for _, s := range sizes {
		if size <= s.most {
			return s.name
		}
	}
	return "GT100GB"
}
