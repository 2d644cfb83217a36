/* Records in memory are as on the wire: little-endian. On other machines nothing is compiled, and the definitions in
   Python compute (acquisition.compiled). */

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "this machine is not little-endian: shardpulse computes in Python here"
#endif
