package attempt

// Key is what the methods of a run ask for that only the engine and the stores may call. Other
// modules cannot import this package: they can neither name the type nor get a valid value of it.
type Key struct{ valid bool }

// NewKey returns a valid Key.
func NewKey() Key { return Key{valid: true} }

// Check panics unless the key is valid. A function with a type parameter can make a zero Key in
// any module.
func (k Key) Check() {
	if !k.valid {
		panic("jobs: this method of a run is for the engine and the stores of Holdfast")
	}
}
