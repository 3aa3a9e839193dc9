package objects

import "sync"

// share bounds what each user has open at a time; a bound below 1 is none.
type share struct {
	max  int
	mu   sync.Mutex
	open map[string]int // those who have any
}

func newShare(most int) *share { return &share{max: most, open: map[string]int{}} }

// enter reports whether the user may have one more. If so, leave gives it back.
func (s *share) enter(user string) bool {
	if s.max < 1 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[user] >= s.max {
		return false
	}
	s.open[user]++
	return true
}

func (s *share) leave(user string) {
	if s.max < 1 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[user]--; s.open[user] == 0 {
		delete(s.open, user)
	}
}
