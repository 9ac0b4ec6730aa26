/** A process that has loaded what every host must load, and does nothing. */
import 'lmdb'
import 'uWebSockets.js'

console.log('idle')
setInterval(() => {}, 1 << 30)
