package container

import "strings"

// Expand replaces every $(NAME) for which look returns a value; $$ stands for
// one dollar, and references that nothing resolves stay as they are.
func Expand(text string, look func(name string) (string, bool)) string {
	if !strings.Contains(text, "$") {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			out.WriteByte(text[i])
			continue
		}
		switch text[i+1] {
		case '$':
			out.WriteByte('$')
			i++
		case '(':
			end := strings.IndexByte(text[i+2:], ')')
			if end < 0 {
				out.WriteByte('$')
				continue
			}
			name := text[i+2 : i+2+end]
			if value, ok := look(name); ok {
				out.WriteString(value)
			} else {
				out.WriteString(text[i : i+2+end+1])
			}
			i += 2 + end
		default:
			out.WriteByte('$')
		}
	}
	return out.String()
}
