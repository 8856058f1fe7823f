package postgres

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// listCodec is the codec of an array type whose parameters are the columns of large batches. pgx
// encodes an array element by element: it copies each one to the heap, and grows its buffer as
// often as it is full. listCodec avoids both for the most frequent types of columns. It leaves
// other values, and all results, to the codec of pgx.
type listCodec struct{ pgtype.Codec }

// registerLists makes a connection with these types encode lists with listCodec.
func registerLists(types *pgtype.Map) error {
	for _, oid := range []uint32{pgtype.TextArrayOID, pgtype.UUIDArrayOID, pgtype.Int4ArrayOID,
		pgtype.Int8ArrayOID} {
		known, ok := types.TypeForOID(oid)
		if !ok {
			return fmt.Errorf("pgx knows no array type %d", oid)
		}
		types.RegisterType(&pgtype.Type{Name: known.Name, OID: oid, Codec: listCodec{known.Codec}})
	}
	return nil
}

// PlanEncode implements pgtype.Codec.
func (c listCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16,
	value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode {
		switch value.(type) {
		case []string:
			if oid == pgtype.TextArrayOID {
				return listPlan[string]{pgtype.TextOID, textSize, appendText}
			}
		case []rawID:
			if oid == pgtype.UUIDArrayOID {
				return listPlan[rawID]{pgtype.UUIDOID, idSize, appendID}
			}
		case []int:
			if oid == pgtype.Int4ArrayOID {
				return listPlan[int]{pgtype.Int4OID, int4Size, appendInt4}
			}
		case []int64:
			if oid == pgtype.Int8ArrayOID {
				return listPlan[int64]{pgtype.Int8OID, int8Size, appendInt8}
			}
		}
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

// listPlan encodes a list in PostgreSQL's binary format of an array with one dimension (array_recv
// in its source): the number of dimensions, whether there are NULLs, the type of the elements,
// their number, the first index, and each element with its size.
type listPlan[T any] struct {
	element uint32
	size    func(T) int
	append  func([]byte, T) ([]byte, error)
}

// Encode implements pgtype.EncodePlan. A nil list is NULL.
func (p listPlan[T]) Encode(value any, buf []byte) ([]byte, error) {
	list := value.([]T)
	if list == nil {
		return nil, nil
	}
	const head, perElement = 5 * 4, 4
	size := head
	for _, element := range list {
		size += perElement + p.size(element)
	}
	if size > cap(buf)-len(buf) { // make room for the next columns too
		buf = slices.Grow(buf, max(size, cap(buf)))
	}
	buf = appendUint32s(buf, 1, 0, p.element, uint32(len(list)), 1)
	var err error
	for _, element := range list {
		buf = appendUint32s(buf, uint32(p.size(element)))
		if buf, err = p.append(buf, element); err != nil {
			return nil, err
		}
	}
	return buf, nil
}

func appendUint32s(buf []byte, values ...uint32) []byte {
	for _, v := range values {
		buf = binary.BigEndian.AppendUint32(buf, v)
	}
	return buf
}

func textSize(text string) int { return len(text) }

func appendText(buf []byte, text string) ([]byte, error) { return append(buf, text...), nil }

func idSize(rawID) int { return len(rawID{}) }

func appendID(buf []byte, id rawID) ([]byte, error) { return append(buf, id[:]...), nil }

func int4Size(int) int { return 4 }

func appendInt4(buf []byte, n int) ([]byte, error) {
	if n < math.MinInt32 || n > math.MaxInt32 {
		return nil, fmt.Errorf("%d is out of the range of integer", n)
	}
	return binary.BigEndian.AppendUint32(buf, uint32(int32(n))), nil
}

func int8Size(int64) int { return 8 }

func appendInt8(buf []byte, n int64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(buf, uint64(n)), nil
}
