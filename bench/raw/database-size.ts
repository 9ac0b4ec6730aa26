/** Prints the size of a database without its empty pages. Arguments: its folder, and a folder for a copy. */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { open } from 'lmdb'

const [folder = '', copy = ''] = process.argv.slice(2)
const root = open({ path: folder, noSubdir: false, maxDbs: 64, readOnly: true })
await root.backup(copy, true)
await root.close()
console.log(statSync(join(copy, 'data.mdb')).size)
