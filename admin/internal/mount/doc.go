// Package mount serves pages under a path prefix.
//
// The pages and the API do not know the prefix: their paths begin with "/". A [Prefix] removes
// itself from the path of a request, and adds itself to the headers Location and Link and to the
// links of a page. So no page can forget it.
package mount
