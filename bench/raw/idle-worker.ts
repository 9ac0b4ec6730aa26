/** An idle process that has loaded the libraries of every worker. */
import 'lmdb'
import 'undici'

console.log('idle')
setInterval(() => {}, 1 << 30)
