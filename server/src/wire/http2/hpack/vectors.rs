//! What another implementation encodes: the package `hpack` 4.2.0 for Python.

/// The Huffman code of the bytes from 0 to 255.
pub(super) const EVERY_BYTE: &str = "
ffc7fffd8fffffe2fffffe3fffffe4fffffe5fffffe6fffffe7fffffe8ffffeafffffff3fffffa7fffffabffffffdfffffebfffffecf
ffffedfffffeefffffefffffff0ffffff1ffffff2fffffffbfffffcffffffd3fffffd7fffffdbfffffdffffffe3fffffe7fffffebfff
ffed4fe3f9ffaffcabf1febfafefe7fdfd2cbb00089969b71d79fb9f7fff20ffbff3ff50ddbd7f061c58f265cd9f469d5af66dddbf87
1e5f9cff7ff7fffc3ff9ffe45fff4719242cb34e6e9d68a6a3d7dac426defe3cfaf7fffbfe7ffbffdffffffcfffe6ffff4bfff9ffffa
3fffd3ffff53fffd5ffffb3fffeb7fffdaffffb7ffff73fffeeffffdeffffebffffbfffffd9ffffdbfffebffffe0ffffeeffffc3ffff
8bffff1ffffe4fffee7fffb1ffff97fffd9ffffcdffff9fffffbffffdafffeeffff4ffffb7fffee7fffe8ffffd3fffdeffffd5fffeef
fffbdffffe1fffdfffff7fffff5ffffecffff07fff87fffe0ffff17fffedffff87ffff77fffeffffeaffff8bfffe3ffff93ffff87fff
cbffff37ffff1fffff83ffffe1fffebfffe3ffff3fffff2ffffa3ffffd9fffff17ffffc7fffff27ffffdefffffbffffff2fffff8ffff
fb7fff97fff8fffffe6fffffc1fffff87ffffe7fffffc5ffffe5fffe4ffff2fffffd1fffff4ffffffefffffe3fffffc9fffff97fffb3
ffffcffffb7fffcdffff4ffff9ffffd1ffffcffffeaffffafffffddffffeffffff4fffff5fffffabffffa7ffffd7fffff9bffffecfff
ffb7fffff3fffffe8fffffd3fffffabfffff5fffffff7ffffecfffffdbfffffbbfffff7ffffff0fffffbbf
";

/// The blocks of one connection in hexadecimal digits, each followed by its fields; "!" marks a sensitive one. The table
/// is resized to 150, 0, 4096, and at once to 64 and 1000.
pub(super) const BLOCKS: &str = r#"
8286448662c28e4f5eff4190eb6c65b2a2a4a85e42ca3b684ae8ee4f538b1d75d0620d263d4c7441ea1f0895ba51d85b142facb3c788
86d46cbbb87bc81d26caff408beb6c6522685887a691d52788eb6c6522685262a7
  :method: GET
  :scheme: http
  :path: /readyz
  :authority: kubernetes.default.svc
  accept: application/json
  !authorization: Bearer eyJhbGciOiJSUzI1NiJ9
  kubectl-command: kubectl get
420644454c4554458744422f6170692f76312f706f64733f77617463683d31267265736f7572636556657273696f6e3d343731312661
6c6c6f775761746368426f6f6b6d61726b733d74727565c253156170706c69636174696f6e2f6a736f6e2c202a2f2a400c782d726571
756573742d69640836323332393731661f081b4265617265722065794a68624763694f694a53557a49314e694a394006782d74657874
09636166c3a920e282ac
  :method: DELETE
  :scheme: https
  :path: /api/v1/pods?watch=1&resourceVersion=4711&allowWatchBookmarks=true
  :authority: kubernetes.default.svc
  accept: application/json, */*
  x-request-id: 6232971f
  !authorization: Bearer eyJhbGciOiJSUzI1NiJ9
  x-text: café €
8386c1410d31302e39362e302e313a34343353236170706c69636174696f6e2f766e642e6b756265726e657465732e70726f746f6275
66
  :method: POST
  :scheme: http
  :path: /api/v1/pods?watch=1&resourceVersion=4711&allowWatchBookmarks=true
  :authority: 10.96.0.1:443
  accept: application/vnd.kubernetes.protobuf
828644a46075990c0ebad0c770b1216ba0fea92d4947f940e32d1b8b414893d900ebad566ff82c7fc07f038603b19461135fc77f0384
1fdc7f44
  :method: GET
  :scheme: http
  :path: /apis/apps/v1/deployments?labelSelector=app%3Dweb
  :authority: 10.96.0.1:443
  x-request-id: 07bea124
  kubectl-command: kubectl get
  x-text: a;b,c
8286c0c27aa4eb6c65226863b8576595c2a7f541aab7cb03a6471afed4eb6c65b2a2a4a861e1c8404a0f7f018610631bc5007f6989fe
59138078027d9fe77f028fffefff9ff3fff7ffbfff3feffff87f
  :method: GET
  :scheme: http
  :path: /apis/apps/v1/deployments?labelSelector=app%3Dweb
  :authority: 10.96.0.1:443
  user-agent: kubectl/v1.33.1 (linux/amd64) kubernetes/8adc0f0
  x-request-id: 21ba8e01
  if-none-match: "326080293"
  x-text: ~^|{}<>\
8286c4c650839bd9ab1f0895ba51d85b142facb3c78886d46cbbb87bc81d26caffcd698afe5b79d69f782dbbfcffc9
  :method: GET
  :scheme: http
  :path: /apis/apps/v1/deployments?labelSelector=app%3Dweb
  :authority: 10.96.0.1:443
  accept-encoding: gzip
  !authorization: Bearer eyJhbGciOiJSUzI1NiJ9
  kubectl-command: kubectl get
  if-none-match: "587498157"
  x-text: café €
838644a16075998ee162a1d2545632150c4859476d096087aa534d48eb47f941a932606c00c9c87a8825b650c3cbb6b83f7f05862b6e
046464bf5795ba51d85b142facb3c78886d46cbbb87bc81d26caff6989fe5c71d6c2165e7bf9
  :method: POST
  :scheme: http
  :path: /api/v1/namespaces/default/configmaps?limit=500
  :authority: 10.96.0.1:443
  accept: application/vnd.kubernetes.protobuf
  user-agent: curl/8.5.0
  x-request-id: e561ac3e
  authorization: Bearer eyJhbGciOiJSUzI1NiJ9
  if-none-match: "667511388"
8286d6d5d090
  :method: GET
  :scheme: http
  :path: /readyz
  :authority: kubernetes.default.svc
  accept: application/json, */*
  accept-encoding: gzip, deflate
8287c2d5c47a8dc475a74a6b589418b525812e0f1f0888ba51d85b1449faffd4
  :method: GET
  :scheme: https
  :path: /api/v1/namespaces/default/configmaps?limit=500
  :authority: kubernetes.default.svc
  accept-encoding: gzip
  user-agent: Go-http-client/2.0
  !authorization: Bearer tok
  kubectl-command: kubectl get
d386448360759bd7d2c6bfd5
  :method: DELETE
  :scheme: http
  :path: /api
  :authority: kubernetes.default.svc
  accept: application/json, */*
  accept-encoding: gzip
  user-agent: Go-http-client/2.0
  kubectl-command: kubectl get
8287d8cfd2d56989fe5b03416c01133fcf
  :method: GET
  :scheme: https
  :path: /readyz
  :authority: 10.96.0.1:443
  accept: application/json, */*
  kubectl-command: kubectl get
  if-none-match: "504150123"
3f778287bf418a08177dc5c0b86e34d33f50839bd9ab7a8825b650c3cbb6b83f408beb6c6522685887a691d52788eb6c6522685262a7
6989fe44d85a640e34fff3
  :method: GET
  :scheme: https
  :path: /api
  :authority: 10.96.0.1:443
  accept-encoding: gzip
  user-agent: curl/8.5.0
  kubectl-command: kubectl get
  if-none-match: "251430649"
8287448662c28e4f5eff4190eb6c65b2a2a4a85e42ca3b684ae8ee4f6989fe590b6d36eb6cff3f
  :method: GET
  :scheme: https
  :path: /readyz
  :authority: kubernetes.default.svc
  if-none-match: "31545753"
4286bf833e0df83f8644a16075998ee162a1d2545632150c4859476d096087aa534d48eb47f941a932606c004190eb6c65b2a2a4a85e
42ca3b684ae8ee4f4089f2b585ed6950958d27868de75c1372c7
  :method: DELETE
  :scheme: http
  :path: /api/v1/namespaces/default/configmaps?limit=500
  :authority: kubernetes.default.svc
  x-request-id: b87625fb
4286bf833e0df83f8744a16075998ee162a1d2545632150c4859476d096087aa534d48eb47f941a932606c00418a08177dc5c0b86e34
d33f7a8dc475a74a6b589418b525812e0f1f0895ba51d85b142facb3c78886d46cbbb87bc81d26caff4085f2b24be53f841fdc7f44
  :method: DELETE
  :scheme: https
  :path: /api/v1/namespaces/default/configmaps?limit=500
  :authority: 10.96.0.1:443
  user-agent: Go-http-client/2.0
  !authorization: Bearer eyJhbGciOiJSUzI1NiJ9
  x-text: a;b,c
828784418a08177dc5c0b86e34d33f53901d75d0620d263d4c7441eafa53e58f9f90408beb6c6522685887a691d52788eb6c65226852
62a74085f2b24be53f841fdc7f44
  :method: GET
  :scheme: https
  :path: /
  :authority: 10.96.0.1:443
  accept: application/json, */*
  accept-encoding: gzip, deflate
  kubectl-command: kubectl get
  x-text: a;b,c
828644a46075990c0ebad0c770b1216ba0fea92d4947f940e32d1b8b414893d900ebad566ff82c7f418a08177dc5c0b86e34d33f7a8d
c475a74a6b589418b525812e0f6989fe42e3ae05a65cfe7f
  :method: GET
  :scheme: http
  :path: /apis/apps/v1/deployments?labelSelector=app%3Dweb
  :authority: 10.96.0.1:443
  user-agent: Go-http-client/2.0
  if-none-match: "16761436"
828744042f61706941166b756265726e657465732e64656661756c742e7376637a12476f2d687474702d636c69656e742f322e30400f
6b75626563746c2d636f6d6d616e640b6b75626563746c206765744006782d7465787409636166c3a920e282ac
  :method: GET
  :scheme: https
  :path: /api
  :authority: kubernetes.default.svc
  user-agent: Go-http-client/2.0
  kubectl-command: kubectl get
  x-text: café €
828644a16075998ee162a1d2545632150c4859476d096087aa534d48eb47f941a932606c00418a08177dc5c0b86e34d33f904085f2b2
4be53f80
  :method: GET
  :scheme: http
  :path: /api/v1/namespaces/default/configmaps?limit=500
  :authority: 10.96.0.1:443
  accept-encoding: gzip, deflate
  x-text: 
828644a46075990c0ebad0c770b1216ba0fea92d4947f940e32d1b8b414893d900ebad566ff82c7f418a08177dc5c0b86e34d33f5390
1d75d0620d263d4c7441eafa53e58f9f4089f2b585ed6950958d27868e30c928082f6989fe5d7c4d844c841fcf
  :method: GET
  :scheme: http
  :path: /apis/apps/v1/deployments?labelSelector=app%3Dweb
  :authority: 10.96.0.1:443
  accept: application/json, */*
  x-request-id: bb1df0c2
  if-none-match: "792512310"
4286bf833e0df83f87844190eb6c65b2a2a4a85e42ca3b684ae8ee4f7a8dc475a74a6b589418b525812e0f5788ba51d85b1449faff69
89fe59138f89f740dff34085f2b24be53f841fdc7f44
  :method: DELETE
  :scheme: https
  :path: /
  :authority: kubernetes.default.svc
  user-agent: Go-http-client/2.0
  authorization: Bearer tok
  if-none-match: "326929705"
  x-text: a;b,c
838744a46075990c0ebad0c770b1216ba0fea92d4947f940e32d1b8b414893d900ebad566ff82c7f4190eb6c65b2a2a4a85e42ca3b68
4ae8ee4f50839bd9ab6989fe4426de0ba07dcfe7
  :method: POST
  :scheme: https
  :path: /apis/apps/v1/deployments?labelSelector=app%3Dweb
  :authority: kubernetes.default.svc
  accept-encoding: gzip
  if-none-match: "225817096"
828744a46075990c0ebad0c770b1216ba0fea92d4947f940e32d1b8b414893d900ebad566ff82c7f4190eb6c65b2a2a4a85e42ca3b68
4ae8ee4f538b1d75d0620d263d4c7441ea4089f2b585ed6950958d2786925964904e0f5788ba51d85b1449faff
  :method: GET
  :scheme: https
  :path: /apis/apps/v1/deployments?labelSelector=app%3Dweb
  :authority: kubernetes.default.svc
  accept: application/json
  x-request-id: dffdd26a
  authorization: Bearer tok
20838784418a08177dc5c0b86e34d33f90
  :method: POST
  :scheme: https
  :path: /
  :authority: 10.96.0.1:443
  accept-encoding: gzip, deflate
828644b06075998ee162b3c88ff3c0d249e00fc58541edb085e25b1063d5034e843f03a283f8e434927ba73f5a476754409b2d2f4190
eb6c65b2a2a4a85e42ca3b684ae8ee4f538b1d75d0620d263d4c7441ea50839bd9ab4085f2b24be53f9020e5fffe3fffeea9fffdbfff
cffffdff
  :method: GET
  :scheme: http
  :path: /api/v1/pods?watch=1&resourceVersion=4711&allowWatchBookmarks=true
  :authority: kubernetes.default.svc
  accept: application/json
  accept-encoding: gzip
  x-text: café €
828744b06075998ee162b3c88ff3c0d249e00fc58541edb085e25b1063d5034e843f03a283f8e434927ba73f5a476754409b2d2f4190
eb6c65b2a2a4a85e42ca3b684ae8ee4f4089f2b585ed6950958d278675a703232fbd1f0895ba51d85b142facb3c78886d46cbbb87bc8
1d26caff4085f2b24be53f9020e5fffe3fffeea9fffdbfffcffffdff
  :method: GET
  :scheme: https
  :path: /api/v1/pods?watch=1&resourceVersion=4711&allowWatchBookmarks=true
  :authority: kubernetes.default.svc
  x-request-id: 7461d398
  !authorization: Bearer eyJhbGciOiJSUzI1NiJ9
  x-text: café €
8387448662c28e4f5eff4190eb6c65b2a2a4a85e42ca3b684ae8ee4f901f0888ba51d85b1449faff6989fe5b6df65c644e7f3f4085f2
b24be53f9020e5fffe3fffeea9fffdbfffcffffdff
  :method: POST
  :scheme: https
  :path: /readyz
  :authority: kubernetes.default.svc
  accept-encoding: gzip, deflate
  !authorization: Bearer tok
  if-none-match: "55936326"
  x-text: café €
828644a16075998ee162a1d2545632150c4859476d096087aa534d48eb47f941a932606c00418a08177dc5c0b86e34d33f53901d75d0
620d263d4c7441eafa53e58f9f50839bd9ab4089f2b585ed6950958d278679f04852b7275795ba51d85b142facb3c78886d46cbbb87b
c81d26caff408beb6c6522685887a691d52788eb6c6522685262a74085f2b24be53f80
  :method: GET
  :scheme: http
  :path: /api/v1/namespaces/default/configmaps?limit=500
  :authority: 10.96.0.1:443
  accept: application/json, */*
  accept-encoding: gzip
  x-request-id: 890dee5d
  authorization: Bearer eyJhbGciOiJSUzI1NiJ9
  kubectl-command: kubectl get
  x-text: 
8287442f2f6170692f76312f6e616d657370616365732f64656661756c742f636f6e6669676d6170733f6c696d69743d353030410d31
302e39362e302e313a3434337a12476f2d687474702d636c69656e742f322e301f081b4265617265722065794a68624763694f694a53
557a49314e694a39400f6b75626563746c2d636f6d6d616e640b6b75626563746c206765744006782d7465787400
  :method: GET
  :scheme: https
  :path: /api/v1/namespaces/default/configmaps?limit=500
  :authority: 10.96.0.1:443
  user-agent: Go-http-client/2.0
  !authorization: Bearer eyJhbGciOiJSUzI1NiJ9
  kubectl-command: kubectl get
  x-text: 
838744042f61706941166b756265726e657465732e64656661756c742e73766353236170706c69636174696f6e2f766e642e6b756265
726e657465732e70726f746f6275665004677a6970570a42656172657220746f6b
  :method: POST
  :scheme: https
  :path: /api
  :authority: kubernetes.default.svc
  accept: application/vnd.kubernetes.protobuf
  accept-encoding: gzip
  authorization: Bearer tok
838644a46075990c0ebad0c770b1216ba0fea92d4947f940e32d1b8b414893d900ebad566ff82c7f4190eb6c65b2a2a4a85e42ca3b68
4ae8ee4f53901d75d0620d263d4c7441eafa53e58f9f1f0888ba51d85b1449faff6989fe5c69f0ba169e67f9
  :method: POST
  :scheme: http
  :path: /apis/apps/v1/deployments?labelSelector=app%3Dweb
  :authority: kubernetes.default.svc
  accept: application/json, */*
  !authorization: Bearer tok
  if-none-match: "649171483"
8387448360759b4190eb6c65b2a2a4a85e42ca3b684ae8ee4f53991d75d0620d263d4c77aa45fadb196ca8a92a17aec3a4f1db2f5083
9bd9ab7a8dc475a74a6b589418b525812e0f6989fe5f0b4cb6d3cd7f3f
  :method: POST
  :scheme: https
  :path: /api
  :authority: kubernetes.default.svc
  accept: application/vnd.kubernetes.protobuf
  accept-encoding: gzip
  user-agent: Go-http-client/2.0
  if-none-match: "91435484"
838744a46075990c0ebad0c770b1216ba0fea92d4947f940e32d1b8b414893d900ebad566ff82c7f4190eb6c65b2a2a4a85e42ca3b68
4ae8ee4f90408beb6c6522685887a691d52788eb6c6522685262a7
  :method: POST
  :scheme: https
  :path: /apis/apps/v1/deployments?labelSelector=app%3Dweb
  :authority: kubernetes.default.svc
  accept-encoding: gzip, deflate
  kubectl-command: kubectl get
8287442f2f6170692f76312f6e616d657370616365732f64656661756c742f636f6e6669676d6170733f6c696d69743d35303041166b
756265726e657465732e64656661756c742e7376635004677a6970
  :method: GET
  :scheme: https
  :path: /api/v1/namespaces/default/configmaps?limit=500
  :authority: kubernetes.default.svc
  accept-encoding: gzip
8287448360759b4190eb6c65b2a2a4a85e42ca3b684ae8ee4f53991d75d0620d263d4c77aa45fadb196ca8a92a17aec3a4f1db2f5788
ba51d85b1449faff4085f2b24be53f8fffefff9ff3fff7ffbfff3feffff87f
  :method: GET
  :scheme: https
  :path: /api
  :authority: kubernetes.default.svc
  accept: application/vnd.kubernetes.protobuf
  authorization: Bearer tok
  x-text: ~^|{}<>\
3fe11f838644b06075998ee162b3c88ff3c0d249e00fc58541edb085e25b1063d5034e843f03a283f8e434927ba73f5a476754409b2d
2f4190eb6c65b2a2a4a85e42ca3b684ae8ee4f50839bd9ab1f0888ba51d85b1449faff4085f2b24be53f841fdc7f44
  :method: POST
  :scheme: http
  :path: /api/v1/pods?watch=1&resourceVersion=4711&allowWatchBookmarks=true
  :authority: kubernetes.default.svc
  accept-encoding: gzip
  !authorization: Bearer tok
  x-text: a;b,c
8287448360759b418a08177dc5c0b86e34d33f538b1d75d0620d263d4c7441ea7a8dc475a74a6b589418b525812e0f5795ba51d85b14
2facb3c78886d46cbbb87bc81d26caff6989fe5a69e68217dc7ff9c4
  :method: GET
  :scheme: https
  :path: /api
  :authority: 10.96.0.1:443
  accept: application/json
  user-agent: Go-http-client/2.0
  authorization: Bearer eyJhbGciOiJSUzI1NiJ9
  if-none-match: "448411969"
  x-text: a;b,c
8387c7c6907aa4eb6c65226863b8576595c2a7f541aab7cb03a6471afed4eb6c65b2a2a4a861e1c8404a0f4089f2b585ed6950958d27
86136d360089af698afe5b700f34f38cb9fcff7f088fffefff9ff3fff7ffbfff3feffff87f
  :method: POST
  :scheme: https
  :path: /api/v1/pods?watch=1&resourceVersion=4711&allowWatchBookmarks=true
  :authority: kubernetes.default.svc
  accept-encoding: gzip, deflate
  user-agent: kubectl/v1.33.1 (linux/amd64) kubernetes/8adc0f0
  x-request-id: 25450124
  if-none-match: "560848636"
  x-text: ~^|{}<>\
828784cac47f01086333313139326462
  :method: GET
  :scheme: https
  :path: /
  :authority: kubernetes.default.svc
  user-agent: Go-http-client/2.0
  x-request-id: c31192db
838784c790690b2231343936323535353222ca
  :method: POST
  :scheme: https
  :path: /
  :authority: 10.96.0.1:443
  accept-encoding: gzip, deflate
  if-none-match: "149625552"
  x-text: a;b,c
8286cdc8cbc36989fe5a03ed85c0321fe7
  :method: GET
  :scheme: http
  :path: /api/v1/pods?watch=1&resourceVersion=4711&allowWatchBookmarks=true
  :authority: 10.96.0.1:443
  accept-encoding: gzip
  user-agent: kubectl/v1.33.1 (linux/amd64) kubernetes/8adc0f0
  if-none-match: "409516031"
3f213fc9074286bf833e0df83f8744b06075998ee162b3c88ff3c0d249e00fc58541edb085e25b1063d5034e843f03a283f8e434927b
a73f5a476754409b2d2f418a08177dc5c0b86e34d33f7aa4eb6c65226863b8576595c2a7f541aab7cb03a6471afed4eb6c65b2a2a4a8
61e1c8404a0f4089f2b585ed6950958d278623d2bc1724075788ba51d85b1449faff4085f2b24be53f9020e5fffe3fffeea9fffdbfff
cffffdff
  :method: DELETE
  :scheme: https
  :path: /api/v1/pods?watch=1&resourceVersion=4711&allowWatchBookmarks=true
  :authority: 10.96.0.1:443
  user-agent: kubectl/v1.33.1 (linux/amd64) kubernetes/8adc0f0
  x-request-id: c8f816d0
  authorization: Bearer tok
  x-text: café €
828744a16075998ee162a1d2545632150c4859476d096087aa534d48eb47f941a932606c004190eb6c65b2a2a4a85e42ca3b684ae8ee
4f1f0895ba51d85b142facb3c78886d46cbbb87bc81d26caff408beb6c6522685887a691d52788eb6c6522685262a7
  :method: GET
  :scheme: https
  :path: /api/v1/namespaces/default/configmaps?limit=500
  :authority: kubernetes.default.svc
  !authorization: Bearer eyJhbGciOiJSUzI1NiJ9
  kubectl-command: kubectl get
8287448662c28e4f5effc07f05860c6018e4233f1f0895ba51d85b142facb3c78886d46cbbb87bc81d26caffc0
  :method: GET
  :scheme: https
  :path: /readyz
  :authority: kubernetes.default.svc
  x-request-id: 1b0aadc3
  !authorization: Bearer eyJhbGciOiJSUzI1NiJ9
  kubectl-command: kubectl get
8387bfc753106170706c69636174696f6e2f6a736f6e907f00083532366439663231c6c5
  :method: POST
  :scheme: https
  :path: /readyz
  :authority: 10.96.0.1:443
  accept: application/json
  accept-encoding: gzip, deflate
  x-request-id: 526d9f21
  authorization: Bearer tok
  x-text: café €
8286c1c953901d75d0620d263d4c7441eafa53e58f9f7f008671d2ca0181cf
  :method: GET
  :scheme: http
  :path: /readyz
  :authority: 10.96.0.1:443
  accept: application/json, */*
  x-request-id: 67ef0a06
828784cb50839bd9ab6989fe44e81a79e65b67f9
  :method: GET
  :scheme: https
  :path: /
  :authority: 10.96.0.1:443
  accept-encoding: gzip
  if-none-match: "270488353"
8287448360759bc853991d75d0620d263d4c77aa45fadb196ca8a92a17aec3a4f1db2f907a8dc475a74a6b589418b525812e0fc96989
fe5c13af042dbe1fe77f0e8fffefff9ff3fff7ffbfff3feffff87f
  :method: GET
  :scheme: https
  :path: /api
  :authority: kubernetes.default.svc
  accept: application/vnd.kubernetes.protobuf
  accept-encoding: gzip, deflate
  user-agent: Go-http-client/2.0
  kubectl-command: kubectl get
  if-none-match: "627811591"
  x-text: ~^|{}<>\
838744b06075998ee162b3c88ff3c0d249e00fc58541edb085e25b1063d5034e843f03a283f8e434927ba73f5a476754409b2d2fcd7a
a4eb6c65226863b8576595c2a7f541aab7cb03a6471afed4eb6c65b2a2a4a861e1c8404a0f7f0886110afba0249fc1
  :method: POST
  :scheme: https
  :path: /api/v1/pods?watch=1&resourceVersion=4711&allowWatchBookmarks=true
  :authority: kubernetes.default.svc
  user-agent: kubectl/v1.33.1 (linux/amd64) kubernetes/8adc0f0
  x-request-id: 2ce970cd
  x-text: ~^|{}<>\
8386cd418a08177dc5c0b86e34d33fc8408beb6c6522685887a691d52788eb6c6522685262a7
  :method: POST
  :scheme: http
  :path: /readyz
  :authority: 10.96.0.1:443
  accept-encoding: gzip
  kubectl-command: kubectl get
"#;
