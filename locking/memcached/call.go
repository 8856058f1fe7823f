package memcached

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
)

// call is the commands of one caller that are sent together, with their replies. Until done is
// closed, its connection writes replies, got and err.
type call struct {
	text    []byte  // nil after its connection has copied it
	room    *[]byte // the text's, from the pool of its Backend
	replies []reply // one for each command, in order
	got     int     // replies that are complete
	err     error   // why the others are missing
	sent    time.Time
	done    chan struct{}

	abandoned bool // by its caller, who must not read the replies any more
}

// reply is the reply to one command.
type reply struct {
	kind  kind
	items *items // of a command gets
	err   error  // with replyRefused
}

// items are the items of a reply to gets.
type items struct {
	keys  []string // that the command asks for
	want  [][]byte // the values that are expected, in the order of keys, or nil
	next  int      // the key after that of the last item
	found []item
}

// item is an item of a reply to gets.
type item struct {
	key     string
	value   []byte
	version uint64 // memcached's CAS id
}

// kind is the kind of a reply.
type kind int

const (
	noReply        kind = iota
	replyStored         // add or cas took effect
	replyNotStored      // add: the key exists
	replyExists         // cas: the item has another version
	replyNotFound       // cas: the key does not exist
	replyValues         // gets: all items were read
	replyVersion        // version
	replyRefused        // an error text: the command did nothing
)

// maxKeys limits the keys of one command gets.
const maxKeys = 200

// newCall returns a call for this number of commands.
func (b *Backend) newCall(commands int) *call {
	room, pooled := b.texts.Get().(*[]byte)
	if !pooled {
		room = new([]byte)
	}
	return &call{done: make(chan struct{}), text: (*room)[:0], room: room,
		replies: make([]reply, 0, commands)}
}

// moveText appends the text to the buffer. Its room is free for other calls then.
func (b *Backend) moveText(buffer []byte, request *call) []byte {
	buffer = append(buffer, request.text...)
	if *request.room = request.text; cap(request.text) <= maxPooled {
		b.texts.Put(request.room)
	}
	request.text, request.room = nil, nil
	return buffer
}

// maxPooled is the size of the largest text whose room is kept. A request that adds 256 locks has
// about 64 KiB.
const maxPooled = 128 << 10

// add adds a command that stores a new item.
func (c *call) add(key string, value []byte, ttl time.Duration) {
	c.line("add ", key, " 0 ", int64(seconds(ttl)), int64(len(value)))
	c.data(value)
}

// swap adds a command that replaces the item if it has this version. Its lifetime is in seconds,
// and a negative one removes the item.
func (c *call) swap(key string, value []byte, lifetime int32, version uint64) {
	c.line("cas ", key, " 0 ", int64(lifetime), int64(len(value)), int64(version))
	c.data(value)
}

// line adds a line with a command, a key, its flags and numbers.
func (c *call) line(command, key, flags string, numbers ...int64) {
	c.text = append(append(append(c.text, command...), key...), flags...)
	for i, n := range numbers {
		if i > 0 {
			c.text = append(c.text, ' ')
		}
		c.text = strconv.AppendInt(c.text, n, 10)
	}
	c.text = append(c.text, "\r\n"...)
}

func (c *call) data(value []byte) {
	c.text = append(append(c.text, value...), "\r\n"...)
	c.replies = append(c.replies, reply{})
}

// gets adds a command that reads items with their versions. There is at least one key. A value that
// is the wanted one of its key is not copied; want may be nil.
func (c *call) gets(keys []string, want [][]byte) {
	c.text = append(c.text, "gets"...)
	for _, key := range keys {
		c.text = append(append(c.text, ' '), key...)
	}
	c.text = append(c.text, "\r\n"...)
	c.replies = append(c.replies, reply{
		items: &items{keys: keys, want: want, found: make([]item, 0, len(want))}})
}

// version adds a command that every server answers.
func (c *call) version() {
	c.text = append(c.text, "version\r\n"...)
	c.replies = append(c.replies, reply{})
}

// complete reports whether all replies have arrived.
func (c *call) complete() bool { return c.got == len(c.replies) }

// reply returns the reply to the command with this index, or nil if it has not arrived. The caller
// of do may call it when do has returned.
func (c *call) reply(i int) *reply {
	if c.abandoned || i >= c.got {
		return nil
	}
	return &c.replies[i]
}

// values returns for each key the item that was read, or nil. The commands that read begin at the
// index from, and ask for the keys in this order.
func (c *call) values(from int, keys []string) []*item {
	found, next := make([]*item, len(keys)), 0
	for i := from; c.reply(i) != nil; i++ {
		read := c.replies[i].items
		for n := range read.found {
			it := &read.found[n]
			for keys[next] != it.key {
				next++
			}
			found[next] = it
			next++
		}
	}
	return found
}

// words are the one-line replies.
var words = map[string]kind{
	"STORED": replyStored, "NOT_STORED": replyNotStored, "EXISTS": replyExists,
	"NOT_FOUND": replyNotFound, "END": replyValues,
}

// read reads a line of the reply, without its end. size is the size of a value that follows.
// done reports whether the reply is complete. Its errors say that the line is not a reply of
// memcached to this command.
func (r *reply) read(line []byte) (size int, done bool, err error) {
	switch {
	case bytes.HasPrefix(line, []byte("VALUE ")) && r.items != nil:
		size, err = r.items.header(line)
		return size, false, err
	case bytes.HasPrefix(line, []byte("VERSION ")) && r.items == nil:
		r.kind = replyVersion
		return 0, true, nil
	case isErrorText(line):
		r.kind, r.err = replyRefused, refusal(line)
		return 0, true, nil
	}
	kind, known := words[string(line)]
	if !known || (kind == replyValues) != (r.items != nil) {
		return 0, false, unexpected(line)
	}
	r.kind = kind
	return 0, true, nil
}

// header reads the line before a value.
func (r *items) header(line []byte) (size int, err error) {
	key, rest, _ := bytes.Cut(line[len("VALUE "):], []byte(" "))
	_, rest, _ = bytes.Cut(rest, []byte(" ")) // the flags
	sizeText, versionText, _ := bytes.Cut(rest, []byte(" "))
	size, sizeErr := strconv.Atoi(string(sizeText))
	version, versionErr := strconv.ParseInt(string(versionText), 10, 64)
	for r.next < len(r.keys) && r.keys[r.next] != string(key) {
		r.next++ // memcached replies in the order of the keys, and leaves out those that are free
	}
	if r.next == len(r.keys) || errors.Join(sizeErr, versionErr) != nil || size < 0 ||
		size > locking.MaxValueBytes {
		return 0, unexpected(line)
	}
	r.found = append(r.found, item{key: r.keys[r.next], version: uint64(version)})
	r.next++
	return size, nil
}

// wanted returns the value that is expected for the last item, or nil.
func (r *items) wanted() []byte {
	if r.want == nil {
		return nil
	}
	return r.want[r.next-1]
}

func isErrorText(line []byte) bool {
	return string(line) == "ERROR" || bytes.HasPrefix(line, []byte("CLIENT_ERROR ")) ||
		bytes.HasPrefix(line, []byte("SERVER_ERROR "))
}

// refusal returns the error for an error text. memcached replies "out of memory storing object"
// or, for a value in several chunks, "Out of memory during read".
func refusal(line []byte) error {
	text := printable(line)
	lower := bytes.ToLower(line)
	switch {
	case text == unauthenticated:
		return fmt.Errorf("%w: %w", locking.ErrUnavailable, &AuthError{Reply: unauthenticated})
	case bytes.HasPrefix(lower, []byte("server_error out of memory")):
		return fmt.Errorf("%w: %s", locking.ErrFull, text)
	case bytes.HasPrefix(lower, []byte("server_error object too large")):
		return fmt.Errorf("%w for this server (-I): %s", locking.ErrTooLarge, text)
	}
	return fmt.Errorf("%w: memcached refused: %s", locking.ErrUnavailable, text)
}

// isOrderly reports whether the connection is usable after this refusal. After other error texts
// memcached may read a value as commands.
func isOrderly(err error) bool {
	return errors.Is(err, locking.ErrFull) || errors.Is(err, locking.ErrTooLarge)
}

func unexpected(line []byte) error {
	return &ReplyError{Command: "a request", Found: strconv.Quote(printable(line))}
}

// seconds returns a lifetime for the protocol. memcached reads less than a second as
// unlimited, and more than 30 days as a date.
func seconds(ttl time.Duration) int32 {
	const most = 30 * 24 * time.Hour
	return int32(min(max(ttl, time.Second), most) / time.Second)
}
