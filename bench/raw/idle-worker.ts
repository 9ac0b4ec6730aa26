/** A process that has loaded what every worker must load, and does nothing. */
import 'lmdb'
import 'undici'

console.log('idle')
setInterval(() => {}, 1 << 30)
