package codec

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func plainList(tb testing.TB, write func(emit func([]byte) error) error) []byte {
	tb.Helper()
	var body []byte
	if err := write(func(piece []byte) error { body = append(body, piece...); return nil }); err != nil {
		tb.Fatal(err)
	}
	return body
}

// TestGzipListIsTheList compares lists of many states with those that are written as a whole, also while segments are kept.
func TestGzipListIsTheList(t *testing.T) {
	t.Parallel()
	res, all := items(t, 500)
	slices.SortFunc(all, func(a, b *Item) int { return bytes.Compare([]byte(a.Key), []byte(b.Key)) })
	random := rand.New(rand.NewPCG(1, 2))
	var s Segments
	for round := range 20 {
		switch at := random.IntN(len(all)); round % 4 {
		case 0: // changed
			all[at] = all[at].At(int64(1000 + round))
		case 1: // gone
			all = slices.Delete(slices.Clone(all), at, at+1)
		case 2: // twice in the list: only its neighbours tell the segments apart
			all = slices.Insert(slices.Clone(all), at, all[at].At(int64(round)))
		}
		selected := all[random.IntN(20) : len(all)-random.IntN(20)]
		for _, form := range []Form{
			{Media: JSON}, {Media: Protobuf}, {Media: JSON, As: PartialMetadata}, {Media: Protobuf, As: PartialMetadata}, {Media: JSON, As: PartialMetadata, Beta: true},
		} {
			meta := metav1.ListMeta{ResourceVersion: fmt.Sprint(round), Continue: string(bytes.Repeat([]byte("c"), round*7000))}
			want := plainList(t, func(emit func([]byte) error) error { return List(res, selected, meta, form, emit) })
			packed := plainList(t, func(emit func([]byte) error) error {
				ok, err := s.GzipList(res, selected, meta, form, 0, emit)
				if !ok {
					t.Fatalf("round %d: %+v is not compressed", round, form)
				}
				return err
			})
			reader, err := gzip.NewReader(bytes.NewReader(packed))
			if err != nil {
				t.Fatal(err)
			}
			reader.Multistream(false) // as browsers and zlib read it
			got, err := io.ReadAll(reader)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("round %d, %+v: %d bytes of %d, %v", round, form, len(got), len(want), err)
			}
		}
		if round%5 == 4 {
			s.Age()
		}
	}
	for range segmentAge + 1 {
		s.Age()
	}
	if len(s.byKey) != 0 || s.size != 0 {
		t.Errorf("%d segments of %d bytes are left", len(s.byKey), s.size)
	}
}

func TestGzipListLeavesOutWhatIsBetterWhole(t *testing.T) {
	t.Parallel()
	res, all := items(t, segmentFrom)
	var s Segments
	for name, c := range map[string]struct {
		items []*Item
		form  Form
		from  int
	}{
		"few":    {items: all[1:]},
		"none":   {},
		"short":  {items: all, from: 1 << 30},
		"table":  {items: all, form: Form{As: Table}},
		"pretty": {items: all, form: Form{Pretty: true}},
		"YAML":   {items: all, form: Form{Media: YAML}},
	} {
		ok, err := s.GzipList(res, c.items, metav1.ListMeta{}, c.form, c.from, func([]byte) error { t.Error(name, "is written"); return nil })
		if ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
}

// TestListsAtOnceShareSegments holds that of lists that come at once none makes what another one makes.
func TestListsAtOnceShareSegments(t *testing.T) {
	t.Parallel()
	res, all := items(t, 2000)
	for _, form := range []Form{{Media: JSON}, {Media: Protobuf}, {Media: JSON, As: PartialMetadata}} {
		var (
			s     Segments
			lists sync.WaitGroup
			got   [8][]*segment
			errs  [8]error
		)
		for n := range got {
			lists.Go(func() { got[n], errs[n] = s.segments(res, all, form) })
		}
		lists.Wait()
		for n := range got {
			if errs[n] != nil || !slices.Equal(got[n], got[0]) {
				t.Errorf("%+v: list %d has segments of its own, %v", form, n, errs[n])
			}
		}
		if len(s.making) > 0 {
			t.Errorf("%+v: %d segments are still being made", form, len(s.making))
		}
	}
}

// TestFailedSegmentFailsForAll holds that who waits for a segment hears of the error, and that the next list tries again.
func TestFailedSegmentFailsForAll(t *testing.T) {
	t.Parallel()
	res, all := items(t, segmentFrom)
	bad := slices.Clone(all)
	bad[0] = NewItem(res.Kind, all[0].Key, []byte("{"), 1, 1) // nobody can decode it
	var s Segments
	for range 2 {
		var lists sync.WaitGroup
		var errs [4]error
		for n := range errs {
			lists.Go(func() { _, errs[n] = s.segments(res, bad, Form{Media: JSON}) })
		}
		lists.Wait()
		for n, err := range errs {
			if err == nil {
				t.Errorf("list %d has an item that cannot be encoded", n)
			}
		}
	}
	if _, err := s.segments(res, all, Form{Media: JSON}); err != nil {
		t.Error(err)
	}
}

func TestSegmentsAreBounded(t *testing.T) {
	t.Parallel()
	var s Segments
	for n := range 100 {
		if n == 50 {
			s.Age()
		}
		s.keep(segmentKey{first: &Item{}}, &segment{packed: make([]byte, segmentBytes/40)})
		if s.size > segmentBytes || s.size != len(s.byKey)*(segmentBytes/40) {
			t.Fatalf("%d bytes in %d segments", s.size, len(s.byKey))
		}
	}
}

func TestCombineSums(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		text := make([]byte, random.IntN(3000))
		for i := range text {
			text[i] = byte(random.Uint32())
		}
		at := 0
		if len(text) > 0 {
			at = random.IntN(len(text))
		}
		if got, want := combineSums(crc32.ChecksumIEEE(text[:at]), crc32.ChecksumIEEE(text[at:]), len(text)-at), crc32.ChecksumIEEE(text); got != want {
			t.Fatalf("%d and %d bytes: %x, want %x", at, len(text)-at, got, want)
		}
	}
}

// BenchmarkGzipList compares a compressed list of 1,000 pods of which one has changed since the last with one that is compressed
// as a whole.
func BenchmarkGzipList(b *testing.B) {
	res, all := items(b, 1000)
	for name, f := range forms {
		b.Run(name+"/segments", func(b *testing.B) {
			var s Segments
			b.ReportAllocs()
			for i := range b.N {
				all[i%len(all)] = all[i%len(all)].At(int64(i))
				if _, err := s.GzipList(res, all, metav1.ListMeta{}, f.form, 0, func([]byte) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/whole", func(b *testing.B) {
			w, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
			b.ReportAllocs()
			for i := range b.N {
				all[i%len(all)] = all[i%len(all)].At(int64(i))
				w.Reset(io.Discard)
				if err := List(res, all, metav1.ListMeta{}, f.form, func(p []byte) error { _, err := w.Write(p); return err }); err != nil {
					b.Fatal(err)
				}
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
