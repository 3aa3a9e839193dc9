package codec

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/flate" // a third of the cost of the standard library's
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/registry"
)

// A long list is compressed in segments, each of some neighbouring items, which are kept: the next list compresses only those in
// which something has changed. Segments end where the hash of a key says so, so that an object that comes or goes changes no
// other segment than its own.
const (
	segmentItems  = 96      // of a segment, about
	segmentMost   = 384     // of a segment
	segmentWeight = 4 << 20 // bytes of stored items from which on a segment takes no more: it is sent in one message
	// segmentsMost bounds the bytes of stored items of a list that is made of segments, since all of them are in memory before the first is sent.
	segmentsMost = 256 << 20
	// segmentFrom is the least number of items of a list that is worth the while.
	segmentFrom = 64
	// segmentBytes bounds what is kept, in bytes; segmentAge for how many calls of Age it is, unused.
	segmentBytes = 16 << 20
	segmentAge   = 6
)

// Segments keeps compressed parts of lists. The zero value is ready for use.
type Segments struct {
	mu     sync.Mutex
	byKey  map[segmentKey]*segment
	making map[segmentKey]*making
	size   int
	now    int
}

type segmentKey struct {
	res   *registry.Resource
	media Media
	as    As
	beta  bool
	first *Item
}

// segment is the encoded form of items, one behind the other, as deflate blocks that end at a byte.
type segment struct {
	items  []*Item
	packed []byte
	length int    // before the compression
	sum    uint32 // IEEE CRC of that
	used   int    // the time of the last use
}

// making is a segment that somebody makes now.
type making struct {
	items []*Item
	done  chan struct{} // closed when there is made or err
	made  *segment
	err   error
}

// Age forgets what has not been used for several calls.
func (s *Segments) Age() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now++
	s.drop(func(g *segment) bool { return s.now-g.used > segmentAge })
}

func (s *Segments) drop(gone func(*segment) bool) {
	for key, g := range s.byKey {
		if gone(g) {
			s.size -= len(g.packed)
			delete(s.byKey, key)
		}
	}
}

// find returns the segment of the items, or nil. changed reports that there is one of others in its place.
func (s *Segments) find(key segmentKey, items []*Item) (found *segment, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.byKey[key]
	if g == nil || !slices.Equal(g.items, items) {
		return nil, g != nil
	}
	g.used = s.now
	return g, false
}

// claim returns who makes the segment of the items, which is the caller where mine is true. Whoever asks for it meanwhile waits for the same one.
func (s *Segments) claim(key segmentKey, items []*Item) (m *making, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m = s.making[key]; m != nil && slices.Equal(m.items, items) {
		return m, false
	}
	m = &making{items: items, done: make(chan struct{})}
	if g := s.byKey[key]; g != nil && slices.Equal(g.items, items) { // since it was looked for
		m.made = g
		close(m.done)
		return m, false
	}
	if s.making == nil {
		s.making = map[segmentKey]*making{}
	}
	s.making[key] = m
	return m, true
}

func (s *Segments) finish(key segmentKey, m *making) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.making[key] == m { // and not that of other items in its place
		delete(s.making, key)
	}
	close(m.done)
}

func (s *Segments) keep(key segmentKey, g *segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey == nil {
		s.byKey = map[segmentKey]*segment{}
	}
	if old := s.byKey[key]; old != nil {
		s.size -= len(old.packed)
	}
	g.used = s.now
	s.byKey[key] = g
	if s.size += len(g.packed); s.size > segmentBytes {
		s.drop(func(g *segment) bool { return g.used < s.now })
	}
	if s.size > segmentBytes { // all of it is in use: begin anew
		s.byKey, s.size = nil, 0
	}
}

// GzipList writes the list of the items, in the version and form that is asked for, compressed by gzip, piece by piece to emit, which
// may keep the pieces. It reports false, and has emitted nothing, for lists that are better written as a whole: short ones,
// tables, pretty ones, those of custom kinds, and those of so much that it should not be held at once.
func (s *Segments) GzipList(res *registry.Resource, items []*Item, meta metav1.ListMeta, form Form, from int, emit func([]byte) error) (bool, error) {
	if len(items) < segmentFrom || form.As == Table || form.Pretty || form.Media == YAML || res.Kind.Custom != nil ||
		form.Media != JSON && form.Media != Protobuf || form.As != PartialMetadata && weigh(items) > segmentsMost {
		return false, nil
	}
	parts, err := s.segments(res, items, form)
	if err != nil {
		return false, err
	}
	length := 0
	for _, g := range parts {
		length += g.length
	}
	if length < from {
		return false, nil
	}
	head, separator, tail, err := frameOf(res, meta, form, length)
	if err != nil {
		return false, err
	}
	return true, assemble(parts, head, separator, tail, emit)
}

// segments returns the segments of a list. Those that are not kept are made by all processors together: the first list of a kind
// decodes and encodes all its objects. Lists that come at once, as those of informers that have lost their server, share that work: each
// makes what no other makes, and takes the rest from them.
func (s *Segments) segments(res *registry.Resource, items []*Item, form Form) ([]*segment, error) {
	var runs [][]*Item
	for left := items; len(left) > 0; {
		n := runLength(left)
		runs, left = append(runs, left[:n]), left[n:]
	}
	parts, missing := make([]*segment, len(runs)), []missingSegment{}
	for n, run := range runs {
		key, again := segmentKey{res, form.Media, form.As, form.Beta, run[0]}, false
		if parts[n], again = s.find(key, run); parts[n] == nil {
			missing = append(missing, missingSegment{n: n, key: key, again: again})
		}
	}
	var (
		next   atomic.Int64
		wg     sync.WaitGroup
		worker = func() {
			packer := packers.Get().(*packer)
			defer packers.Put(packer)
			for at := next.Add(1) - 1; at < int64(len(missing)); at = next.Add(1) - 1 {
				m := &missing[at]
				var mine bool
				if m.by, mine = s.claim(m.key, runs[m.n]); mine {
					m.by.made, m.by.err = s.segment(packer, m.key, runs[m.n], form, m.again)
					s.finish(m.key, m.by)
				}
			}
		}
	)
	for range min(runtime.GOMAXPROCS(0), len(missing)) {
		wg.Go(worker)
	}
	wg.Wait()
	var errs []error
	for _, m := range missing { // nobody waits before what it makes is made
		<-m.by.done
		parts[m.n] = m.by.made
		errs = append(errs, m.by.err)
	}
	return parts, errors.Join(errs...)
}

// missingSegment is the nth of a list, which is not kept.
type missingSegment struct {
	n     int
	key   segmentKey
	again bool // there is one of other items in its place
	by    *making
}

// weigh returns how many bytes the items are stored in.
func weigh(items []*Item) (bytes int) {
	for _, item := range items {
		bytes += item.Size()
	}
	return bytes
}

// runLength is how many of the items make the next segment.
func runLength(items []*Item) int {
	hash, weight := fnv.New32a(), 0
	for n, item := range items[:min(len(items), segmentMost)] {
		hash.Reset()
		_, _ = hash.Write([]byte(item.Key)) // never fails
		if weight += item.Size(); weight >= segmentWeight || hash.Sum32()%segmentItems == 0 {
			return n + 1
		}
	}
	return min(len(items), segmentMost)
}

// segment makes a segment and keeps it; again says that it is made in the place of one in which something has changed. A panic is its error: it may be on a goroutine of its own.
func (s *Segments) segment(p *packer, key segmentKey, items []*Item, form Form, again bool) (g *segment, err error) {
	res := key.res
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("encode a list of %s: panic: %v", res.GVK.Kind, panicked)
		}
	}()
	p.plain = p.plain[:0]
	if form.Media == Protobuf {
		p.plain, err = appendProtobufItems(p.plain, res, items, form)
	} else {
		err = p.appendJSONItems(res, items, form, again)
	}
	if err != nil {
		return nil, err
	}
	g = &segment{items: slices.Clone(items), length: len(p.plain), sum: crc32.ChecksumIEEE(p.plain)}
	if g.packed, err = p.pack(); err != nil {
		return nil, err
	}
	s.keep(key, g)
	return g, nil
}

// packer compresses segments.
type packer struct {
	plain  []byte
	text   bytes.Buffer // of one object
	packed bytes.Buffer
	flate  *flate.Writer
}

// level is that of the compression: one above costs the server hardly more than the fastest, and makes a third less for clients to
// receive and to expand, which is most of what a list costs.
const level = 3

var packers = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, level) // which is valid
	return &packer{flate: w}
}}

func (p *packer) pack() ([]byte, error) {
	p.packed.Reset()
	p.flate.Reset(&p.packed)
	if _, err := p.flate.Write(p.plain); err != nil {
		return nil, err
	}
	if err := p.flate.Flush(); err != nil {
		return nil, err
	}
	return bytes.Clone(p.packed.Bytes()), nil
}

// appendJSONItems leaves nothing of the objects behind the first time: with all that a list decodes and encodes, it would be several
// times what is stored. Where something has changed since, lists come often, and the texts of that segment's objects are kept.
func (p *packer) appendJSONItems(res *registry.Resource, items []*Item, form Form, again bool) error {
	front, err := json.Marshal(metav1.TypeMeta{Kind: res.GVK.Kind, APIVersion: res.GVK.GroupVersion().String()})
	if err != nil {
		return err
	}
	for n, item := range items {
		if n > 0 {
			p.plain = append(p.plain, ',')
		}
		if form.As == PartialMetadata {
			b, err := item.partialJSON(form.Beta)
			if err != nil {
				return err
			}
			p.plain = append(p.plain, b[:len(b)-1]...)
			continue
		}
		var b []byte
		if again {
			b, err = item.json(res)
		} else {
			b, err = item.passingJSON(res, &p.text)
		}
		if err != nil {
			return err
		}
		p.plain = append(append(p.plain, '{'), b[len(front):len(b)-1]...)
	}
	return nil
}

func appendProtobufItems(to []byte, res *registry.Resource, items []*Item, form Form) ([]byte, error) {
	for _, item := range items {
		var (
			raw    []byte
			suffix bool
			err    error
		)
		if form.As == PartialMetadata {
			raw, err = item.partialRaw()
		} else {
			raw, suffix, err = item.raw(res)
		}
		if err != nil {
			return nil, err
		}
		length := len(raw)
		if suffix {
			length += revisionSuffixSize(item.Revision)
		}
		to = append(appendVarint(append(to, 2<<3|2), uint64(length)), raw...)
		if suffix {
			to = revisionSuffix(to, item.Revision)
		}
	}
	return to, nil
}

// frameOf returns what stands before, between and after segments of so many bytes together.
func frameOf(res *registry.Resource, meta metav1.ListMeta, form Form, length int) (head, separator, end []byte, err error) {
	gvk := res.GVK.GroupVersion().WithKind(res.ListKind)
	if form.As == PartialMetadata {
		gvk = partialKind(form.Beta)
		gvk.Kind = "PartialObjectMetadataList"
	}
	if form.Media == JSON {
		head, _, err = jsonListEnds(gvk, meta, false) // lists of custom objects are not cut into segments
		return append(head, '['), []byte{','}, []byte("]}\n"), err
	}
	listMeta, err := meta.Marshal()
	if err != nil {
		return nil, nil, nil, err
	}
	front := appendVarint([]byte{1<<3 | 2}, uint64(len(listMeta)))
	front = append(front, listMeta...)
	head = appendRaw(appendHead(nil, gvk), len(front)+length)
	return append(head, front...), nil, tail[:], nil
}

// storedMost is the most that a stored deflate block can hold, in bytes.
const storedMost = 1<<16 - 1

// assemble puts a gzip member together.
func assemble(parts []*segment, head, separator, end []byte, emit func([]byte) error) error {
	const piece = 64 << 10
	out := append(make([]byte, 0, piece), 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 0xff) // RFC 1952: deflate, no time, fastest, unknown system
	sum, length := uint32(0), 0
	store := func(b []byte, last bool) {
		for {
			n := min(len(b), storedMost)
			final := byte(0)
			if last && n == len(b) {
				final = 1
			}
			out = append(out, final)
			out = binary.LittleEndian.AppendUint16(out, uint16(n))
			out = binary.LittleEndian.AppendUint16(out, ^uint16(n))
			out = append(out, b[:n]...)
			sum, length = crc32.Update(sum, crc32.IEEETable, b[:n]), length+n
			if b = b[n:]; len(b) == 0 {
				return
			}
		}
	}
	store(head, false)
	for n, g := range parts {
		if n > 0 && len(separator) > 0 {
			store(separator, false)
		}
		if len(out) > 0 && len(out)+len(g.packed) > piece {
			if err := emit(out); err != nil {
				return err
			}
			out = make([]byte, 0, piece)
		}
		out = append(out, g.packed...)
		sum, length = combineSums(sum, g.sum, g.length), length+g.length
	}
	store(end, true)
	out = binary.LittleEndian.AppendUint32(out, sum)
	return emit(binary.LittleEndian.AppendUint32(out, uint32(length)))
}

// combineSums returns the IEEE CRC of two texts, one behind the other, of the CRC of each and the length of the second: appending a
// zero bit is a linear map of the CRC, whose powers are found by squaring.
func combineSums(first, second uint32, length int) uint32 {
	const polynomial = 0xedb88320
	var power [32]uint32 // the map as a matrix: column n is what it makes of bit n
	power[0] = polynomial
	for n := 1; n < 32; n++ {
		power[n] = 1 << (n - 1)
	}
	for bits := uint64(length) * 8; bits > 0; bits >>= 1 {
		if bits&1 == 1 {
			first = apply(&power, first)
		}
		if bits > 1 {
			squared := power
			for n := range squared {
				squared[n] = apply(&power, power[n])
			}
			power = squared
		}
	}
	return first ^ second
}

func apply(matrix *[32]uint32, to uint32) (sum uint32) {
	for n := 0; to != 0; n, to = n+1, to>>1 {
		if to&1 == 1 {
			sum ^= matrix[n]
		}
	}
	return sum
}
