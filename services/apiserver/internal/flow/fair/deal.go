package fair

// Deal appends a hand of distinct cards, each 0 to deck-1, that the hash decides: every hand is about as likely as any other. The hash
// is read as a number of mixed base: its remainder by deck is the first card, the quotient's by deck-1 tells which of those left is the
// second, and so on. hand is empty, with room to spare it an allocation.
func Deal(hand []int, hash uint64, deck, size int) []int {
	for n := range min(size, deck) {
		left := uint64(deck - n)
		card := int(hash % left)
		hash /= left
		// card counts those that are left only: step over those before it that are dealt. The hand is kept in order for that.
		at := 0
		for at < len(hand) && hand[at] <= card {
			card++
			at++
		}
		hand = append(hand, 0)
		copy(hand[at+1:], hand[at:])
		hand[at] = card
	}
	return hand
}
