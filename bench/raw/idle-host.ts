/** An idle process that has loaded the libraries of every host. */
import 'lmdb'
import 'uWebSockets.js'

console.log('idle')
setInterval(() => {}, 1 << 30)
