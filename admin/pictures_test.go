package admin

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/internal/test/browsertest"
)

const (
	pictureFolder   = "../docs/images"
	maxPictureBytes = 120_000 // of one picture
	alike           = 24      // colours with smaller differences are one in a palette
)

// picture is a screenshot in a document.
type picture struct {
	name          string // of the file, without .png
	document      string
	path          string
	width, height int64    // px
	has           []string // texts of the page that the picture shows
}

func pictures() []picture {
	const operations = "../docs/operations.md"
	return []picture{
		{"overview", "../README.md", "/", 1280, 1034, []string{"1 job fails repeatedly",
			"Four replicas: three live, one lost.", "holds " + tailOf("public/orders"),
			"5 failures in a row",
			"Job archive-orders usually takes 9 min. Firings of rollup-sales are skipped because of it.",
			"The last runs of these jobs failed: report-sales, send-invoices."}},
		{"job", operations, "/jobs/rollup-sales", 1280, 900, []string{"Next scheduled times",
			"Why the last firing was skipped", "The last 2 firings in a row did not succeed.",
			"Last 30 days", "at the median", "Start delay"}},
		{"run", operations, "/runs/" + id(shopInvoices).String(), 1440, 1180, []string{"Phases",
			"ran 12 s", "retry wait 18 s", "454 4.7.0 TLS is not available", `id="L1"`}},
		{"locks", operations, "/locks", 1280, 860, []string{"has held public/orders",
			"archive-orders", "prune-orders", "Release lock"}},
		{"grid", operations, "/grid", 1280, 650, []string{"a column is 30 min",
			`class="cell skipped"`, `class="cell failed"`, `class="cell lost"`, "46 of 48"}},
		{"agenda", operations, "/agenda", 1280, 790, []string{"backup-customers",
			"are expected to wait for another job", "Next 24 h"}},
	}
}

// TestPictures checks that the documents show the pictures in docs/images and no others, with the
// size of this list and an alternative text, and that their pages still have what they show. With
// HOLDFAST_UPDATE=1 it takes the pictures anew.
func TestPictures(t *testing.T) {
	t.Parallel()
	handler := newServer(t, pictureOptions()).Handler()
	if os.Getenv("HOLDFAST_UPDATE") != "" {
		takePictures(t, handler)
	}
	shown := picturesInDocuments(t)
	for _, p := range pictures() {
		file := p.name + ".png"
		if got := shown[file]; got != p.document {
			t.Errorf("%s is in the document %q, want %s", file, got, p.document)
		}
		delete(shown, file)
		reply := get(t, handler, p.path)
		for _, want := range p.has {
			if !strings.Contains(flat(reply.Body.String()), flat(want)) {
				t.Errorf("%s (%d) lacks %q: take the picture anew", p.path, reply.Code, want)
			}
		}
		written, err := os.ReadFile(filepath.Join(pictureFolder, file))
		if err != nil {
			t.Error(err)
			continue
		}
		size, err := png.DecodeConfig(bytes.NewReader(written))
		if err != nil || int64(size.Width) != p.width || int64(size.Height) != p.height ||
			len(written) > maxPictureBytes {
			t.Errorf("%s: %d x %d px in %d bytes (%v), want %d x %d in at most %d", file,
				size.Width, size.Height, len(written), err, p.width, p.height, maxPictureBytes)
		}
	}
	for file, document := range shown {
		t.Errorf("%s shows %s, which no test takes", document, file)
	}
	files, err := filepath.Glob(filepath.Join(pictureFolder, "*"))
	if err != nil || len(files) != len(pictures()) {
		t.Errorf("in %s are %q, want %d pictures (%v)", pictureFolder, files, len(pictures()), err)
	}
}

// pictureOptions is the cluster of the pictures.
func pictureOptions() Options {
	return actionOptions(withTable(shop(), jobsOfTable()), func(c *control) { c.hooks = nil })
}

// picturesInDocuments returns the document of each picture. It requires alternative texts.
func picturesInDocuments(t *testing.T) map[string]string {
	t.Helper()
	documents, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := make(map[string]string)
	link := regexp.MustCompile(`!\[([^\]]*)\]\((?:docs/)?images/([^)]+)\)`)
	for _, document := range append(documents, "../README.md") {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range link.FindAllStringSubmatch(string(text), -1) {
			shown[match[2]] = document
			if len(strings.Fields(match[1])) < 5 {
				t.Errorf("%s: the text of %s is %q", document, match[2], match[1])
			}
		}
	}
	return shown
}

// takePictures writes the pictures. The clocks of the pages stand still, in UTC.
func takePictures(t *testing.T, handler http.Handler) {
	t.Helper()
	window := tab(t)
	site := siteIn(t, window, handler)
	_, err := chromedp.Call(window, emulation.SetTimezoneOverride,
		emulation.SetTimezoneOverrideParams{TimezoneID: "UTC"})
	if err == nil {
		_, err = chromedp.Call(window, cdppage.AddScriptToEvaluateOnNewDocument,
			cdppage.AddScriptToEvaluateOnNewDocumentParams{
				Source: `window.setInterval = () => 0`})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pictures() {
		browsertest.Resize(t, window, screen{Width: p.width, Scheme: "light"})
		_, err := chromedp.Call(window, emulation.SetDeviceMetricsOverride,
			emulation.SetDeviceMetricsOverrideParams{Width: p.width, Height: p.height,
				DeviceScaleFactor: 1})
		if err != nil {
			t.Fatal(err)
		}
		browsertest.Visit(t, window, site+p.path)
		file := filepath.Join(pictureFolder, p.name+".png")
		if err := os.WriteFile(file, takePicture(t, window), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// takePicture returns what the window shows as a PNG with a palette, which is a third as large as
// the PNG of the browser.
func takePicture(t *testing.T, window context.Context) []byte {
	t.Helper()
	taken, err := chromedp.Run(window, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	full, err := png.Decode(bytes.NewReader(taken))
	if err != nil {
		t.Fatal(err)
	}
	small := image.NewPaletted(full.Bounds(), paletteOf(full))
	draw.Draw(small, small.Bounds(), full, image.Point{}, draw.Src)
	var b bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&b, small); err != nil {
		t.Fatal(fmt.Errorf("encode: %w", err))
	}
	return b.Bytes()
}

// paletteOf returns at most 256 colours of a picture: the most frequent ones of those that differ.
// The others are shades at the edges of letters.
func paletteOf(full image.Image) (palette color.Palette) {
	counts := make(map[color.RGBA]int)
	for y := range full.Bounds().Dy() {
		for x := range full.Bounds().Dx() {
			r, g, b, _ := full.At(x, y).RGBA()
			counts[color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 255}]++
		}
	}
	difference := func(a color.Color, b color.RGBA) int {
		r, g, blue, _ := a.RGBA()
		return max(int(r>>8), int(b.R)) - min(int(r>>8), int(b.R)) +
			max(int(g>>8), int(b.G)) - min(int(g>>8), int(b.G)) +
			max(int(blue>>8), int(b.B)) - min(int(blue>>8), int(b.B))
	}
	for i, c := range slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(counts[b]-counts[a], cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	}) {
		isAlike := func(known color.Color) bool { return difference(known, c) < alike }
		// the surfaces of the page are alike, and frequent
		if len(palette) < 256 && (i < 24 || !slices.ContainsFunc(palette, isAlike)) {
			palette = append(palette, c)
		}
	}
	return palette
}
