package object

// A generated name has at most 63 letters, as host names have: LongestPrefix of its generateName, and SuffixLength more.
const LongestPrefix, SuffixLength = 58, 5

// NamePrefix is what names that are made of a generateName keep of it.
func NamePrefix(generateName string) string {
	return generateName[:min(len(generateName), LongestPrefix)]
}
