package postgres

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"pgregory.net/rapid"
)

// A column has the bytes that pgx would send, after those of the columns before it.
func TestListsAreEncodedAsByTheDriver(t *testing.T) {
	t.Parallel()
	ours := mapWithLists(t)
	rapid.Check(t, func(t *rapid.T) {
		before := []byte(rapid.String().Draw(t, "before"))
		id := rapid.Custom(func(t *rapid.T) rawID {
			return rawID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		})
		for oid, list := range map[uint32]any{
			pgtype.TextArrayOID: orNil(rapid.SliceOf(rapid.String())).Draw(t, "texts"),
			pgtype.UUIDArrayOID: orNil(rapid.SliceOf(id)).Draw(t, "ids"),
			pgtype.Int4ArrayOID: orNil(rapid.SliceOf(rapid.IntRange(math.MinInt32,
				math.MaxInt32))).Draw(t, "ints"),
			pgtype.Int8ArrayOID: orNil(rapid.SliceOf(rapid.Int64())).Draw(t, "int8s"),
		} {
			want, err := pgtype.NewMap().Encode(oid, pgx.BinaryFormatCode, list,
				slices.Clone(before))
			if err != nil {
				t.Fatal(err)
			}
			got, err := ours.Encode(oid, pgx.BinaryFormatCode, list, slices.Clone(before))
			if err != nil || !bytes.Equal(got, want) || (got == nil) != (want == nil) {
				t.Errorf("%T: %x (%v), want %x", list, got, err, want)
			}
		}
	})
}

// Values of other types, and other formats, are encoded by pgx.
func TestOtherListsAreLeftToTheDriver(t *testing.T) {
	t.Parallel()
	ours := mapWithLists(t)
	for _, each := range []struct {
		oid    uint32
		format int16
		value  any
	}{
		{pgtype.TextArrayOID, pgx.TextFormatCode, []string{`a "quoted" text`, ""}},
		{pgtype.TextArrayOID, pgx.BinaryFormatCode, []*string{nil}},
		{pgtype.Int4ArrayOID, pgx.BinaryFormatCode, []int64{1, 2}},
		{pgtype.Int8ArrayOID, pgx.BinaryFormatCode, []int{1, 2}},
	} {
		want, wantErr := pgtype.NewMap().Encode(each.oid, each.format, each.value, nil)
		got, err := ours.Encode(each.oid, each.format, each.value, nil)
		if err != nil || wantErr != nil || !bytes.Equal(got, want) {
			t.Errorf("%T: %x (%v), want %x (%v)", each.value, got, err, want, wantErr)
		}
	}
}

func TestIntegerOutOfRangeIsRefused(t *testing.T) {
	t.Parallel()
	for _, n := range []int{math.MaxInt32 + 1, math.MinInt32 - 1} {
		if got, err := mapWithLists(t).Encode(pgtype.Int4ArrayOID, pgx.BinaryFormatCode, []int{n},
			nil); err == nil {
			t.Errorf("%d was encoded as %x", n, got)
		}
	}
}

func mapWithLists(t *testing.T) *pgtype.Map {
	types := pgtype.NewMap()
	if err := registerLists(types); err != nil {
		t.Fatal(err)
	}
	return types
}

// orNil generates nil lists too.
func orNil[T any](lists *rapid.Generator[[]T]) *rapid.Generator[[]T] {
	return rapid.OneOf(lists, rapid.Just([]T(nil)))
}
