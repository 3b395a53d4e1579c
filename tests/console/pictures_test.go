package console

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestPictures makes the pictures of docs/console.md: the overview and the page of
// a key, light and dark. All that they show is made up. `make pictures` runs it.
func TestPictures(t *testing.T) {
	dir := os.Getenv("CARD_TEST_PICTURES")
	if dir == "" {
		t.Skip("it makes the pictures of docs/console.md; `make pictures` runs it")
	}
	chromium(t)
	server := harness.StartRedis(t, "--appendonly", "yes", "--maxmemory", "256mb", "--maxmemory-policy", "noeviction")
	s := newScene(t, "redis redis://127.0.0.1:"+server.ListenTCP())
	p := openPage(t, s.home, path)
	p.signIn(token)
	p.see("Overview")
	for round := range 12 { // each fills a step of the plots
		steps := p.eval("document.querySelector('path.accepted').getAttribute('d').split('H').length")
		for range 2 + 5*round%8 {
			s.Send(t, s.busy.Post())
		}
		s.Send(t, s.stuck.Get())
		harness.Eventually(t, "another step is drawn", func() bool {
			return p.eval("document.querySelector('path.accepted').getAttribute('d').split('H').length") != steps
		})
	}
	p.pictures(dir, "console")
	p.visit("keys/"+s.busy.ID, "Live secrets")
	p.use("e.tagName === 'SUMMARY' && e.textContent.startsWith('401')")
	p.eval("document.activeElement.blur()")
	p.pictures(dir, "console-key")
}

// maxPicture is how large a file may be, in bytes.
const maxPicture = 150_000

// pictures writes what is shown now, light and dark.
func (p *page) pictures(dir, name string) {
	p.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		p.dress(scheme, 1200)
		var shot struct{ Data string }
		p.do("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &shot)
		data, err := base64.StdEncoding.DecodeString(shot.Data)
		if err != nil {
			p.t.Fatal(err)
		}
		small := shrink(p.t, data)
		if len(small) > maxPicture {
			p.t.Errorf("%s-%s.png has %d bytes, want at most %d", name, scheme, len(small), maxPicture)
		}
		if err := os.WriteFile(filepath.Join(dir, name+"-"+scheme+".png"), small, 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
}

// coarse returns a colour with four bits a channel.
func coarse(c color.Color) color.Color {
	r, g, b, _ := c.RGBA()
	level := func(x uint32) uint8 { return uint8((x + 2184) / 4369 * 17) }
	return color.RGBA{level(r), level(g), level(b), 255}
}

// exact is how many colours of a picture stay as they are.
const exact = 64

// shrink returns a PNG with at most 256 colours: the most frequent ones, and for the
// others, at the edges of letters, the nearest coarse ones.
func shrink(t *testing.T, data []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[color.Color]int)
	bounds := from.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[from.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int { return cmp.Compare(counts[b], counts[a]) })
	palette, index := make(color.Palette, 0, 256), make(map[color.Color]uint8, len(colours))
	for i, c := range colours {
		shown := c
		if i >= exact {
			shown = coarse(c)
		}
		if len(palette) < 256 && !slices.Contains(palette, shown) {
			palette = append(palette, shown)
		}
		index[c] = uint8(palette.Index(shown))
	}
	small := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			small.SetColorIndex(x, y, index[from.At(x, y)])
		}
	}
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&out, small); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
