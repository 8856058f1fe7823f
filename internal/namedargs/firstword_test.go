package namedargs

import "testing"

func TestFirstWord(t *testing.T) {
	for sql, want := range map[string]string{
		"": "", " \n": "", "-- a": "", "(SELECT 1)": "", "SELECT 1": "select",
		"Insert_2": "insert_", ";;\t COMMIT;": "commit",
		"-- a\n/* b /* c */ d */ UPDATE e SET f = 1": "update",
	} {
		if got := FirstWord(sql); got != want {
			t.Errorf("%q: got %q, want %q", sql, got, want)
		}
	}
}
