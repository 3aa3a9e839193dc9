package userns

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
)

// Pool is what pods' ranges are taken from: Ranges of Length IDs each, from First on.
type Pool struct{ First, Ranges uint32 }

// everything is all but the first Length IDs, which are the node's own, and the last, of which one means nobody.
var everything = Pool{Length, math.MaxUint32/Length - 1}

// owner is the user whose subordinate IDs are the pods'.
const owner = "kubelet"

// ReadPool returns the IDs that files like /etc/subuid and /etc/subgid set apart for the user kubelet, all but the node's own where they
// name none. They have to be the same range in both, of whole ranges for pods, and enough for so many pods.
func ReadPool(subuid, subgid string, pods int64) (Pool, error) {
	users, err := subordinate(subuid)
	if err != nil {
		return Pool{}, err
	}
	groups, err := subordinate(subgid)
	if err != nil {
		return Pool{}, err
	}
	pool := Pool{users.first, users.count / Length}
	switch {
	case users != groups:
		return Pool{}, fmt.Errorf("%s and %s give the user %s different IDs: %v and %v", subuid, subgid, owner, users, groups)
	case users == span{}:
		return everything, nil
	case users.first < Length || users.first%Length != 0 || users.count%Length != 0:
		return Pool{}, fmt.Errorf("%s gives the user %s %v: the first and their number have to be multiples of %d, and the first %d are the node's", subuid, owner, users, Length, Length)
	case int64(pool.Ranges) < pods:
		return Pool{}, fmt.Errorf("%s gives the user %s %v: %d pods need %d", subuid, owner, users, pods, pods*Length)
	}
	return pool, nil
}

// span is a line's range of IDs.
type span struct{ first, count uint32 }

func (s span) String() string {
	if s.count == 0 {
		return "none"
	}
	return fmt.Sprintf("%d IDs from %d on", s.count, s.first)
}

// subordinate returns the owner's IDs in a file, none where the file is not there or does not name it.
func subordinate(path string) (span, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return span{}, nil
	}
	if err != nil {
		return span{}, err
	}
	var found span
	for line := range strings.Lines(string(data)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if fields[0] != owner {
			continue
		}
		if found != (span{}) || len(fields) != 3 {
			return span{}, fmt.Errorf("%s: the user %s needs one line, %s:FIRST:NUMBER", path, owner, owner)
		}
		first, err := strconv.ParseUint(fields[1], 10, 32)
		if err != nil {
			return span{}, fmt.Errorf("%s: %w", path, err)
		}
		count, err := strconv.ParseUint(fields[2], 10, 32)
		if err != nil || count == 0 || first+count > math.MaxUint32 {
			return span{}, fmt.Errorf("%s: %q is not a number of IDs after %d", path, fields[2], first)
		}
		found = span{uint32(first), uint32(count)}
	}
	return found, nil
}
