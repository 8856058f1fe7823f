package param

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Cursors are the names of the parameters of the next and the previous page.
type Cursors struct{ Next, Previous string }

// Pager has the addresses of the pages around a page, "" for those that do not exist.
type Pager struct{ NextPage, PreviousPage, FirstPage string }

// Pager returns the addresses around a page, by its first and last entry.
func (p Set) Pager(path string, by Cursors, first, last string, on, back bool) Pager {
	var g Pager
	if on {
		g.NextPage = p.With(path, by.Previous, "", by.Next, last)
	}
	if back {
		g.PreviousPage, g.FirstPage = p.With(path, by.Next, "", by.Previous, first),
			p.With(path, by.Next, "", by.Previous, "")
	}
	return g
}

// TreePager links the page after a key and the first page.
func (p Set) TreePager(path, after string) (g Pager) {
	if after != "" {
		g.NextPage = p.With(path, "after", after)
	}
	if p.Get("after") != "" {
		g.FirstPage = p.With(path, "after", "")
		g.PreviousPage = g.FirstPage
	}
	return g
}

// Skip parses the number of entries to skip.
func (p Set) Skip() (int, error) {
	const most = 1_000_000
	text := p.Get("skip")
	if text == "" {
		return 0, nil
	}
	skip, err := strconv.Atoi(text)
	if err != nil || skip < 0 || skip > most {
		return 0, Errorf("skip is %q, expected a number from 0 to %d",
			words.Cut(text, 100), most)
	}
	return skip, nil
}

// SkipPager pages through a list by the number of entries to skip.
func (p Set) SkipPager(path string, skip, page, total int) (g Pager) {
	text := func(n int) string {
		if n <= 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	if skip+page < total {
		g.NextPage = p.With(path, "skip", text(skip+page))
	}
	if skip > 0 {
		g.PreviousPage, g.FirstPage = p.With(path, "skip", text(skip-page)),
			p.With(path, "skip", "")
	}
	return g
}

// SetLinks sets the Link header of RFC 8288.
func SetLinks(w http.ResponseWriter, g Pager) {
	var links []string
	if g.NextPage != "" {
		links = append(links, "<"+g.NextPage+`>; rel="next"`)
	}
	if g.PreviousPage != "" {
		links = append(links, "<"+g.PreviousPage+`>; rel="prev"`)
	}
	if len(links) > 0 {
		w.Header().Set("Link", strings.Join(links, ", "))
	}
}

// Trim removes the entry beyond the limit that shows whether there is another page, and reports
// whether there are a next and a previous page. On a page that was read backwards, that entry is
// the first. If the store cannot return one more than the limit, a full page may have a next one.
// givenNext and givenPrevious report which cursors the request had.
func Trim[T any](list []T, limit int, givenNext,
	givenPrevious bool) (page []T, next, previous bool) {
	more := len(list) > limit || len(list) == storage.MaxBatch
	backwards := givenPrevious && !givenNext
	switch {
	case more && backwards:
		list = list[len(list)-limit:]
	case more:
		list = list[:limit]
	}
	return list, backwards || more, givenNext || backwards && more
}
