package gateway

import (
	"strings"

	"google.golang.org/grpc/metadata"
)

// agentKey carries the client's user agent to the API server, for the history and the audit log.
const agentKey = "howdah-user-agent"

// maxAgent bounds what is passed on of a user agent, in bytes.
const maxAgent = 256

// withAgent adds a user agent to what is said of the caller, unless it is there already. One who names none has an empty one, lest
// the gateway's own be taken for it.
func withAgent(md metadata.MD, agent string) metadata.MD {
	if len(md[agentKey]) > 0 {
		return md
	}
	agent = agent[:min(len(agent), maxAgent)]
	if strings.IndexFunc(agent, unprintable) >= 0 {
		agent = strings.Map(func(c rune) rune {
			if unprintable(c) {
				return '?'
			}
			return c
		}, agent)
	}
	md[agentKey] = []string{agent}
	return md
}

func unprintable(c rune) bool { return c < ' ' || c > '~' }
