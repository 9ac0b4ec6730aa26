/**
 * Replaces `lmdb` in tests, so that each test file that imports it has its own.
 *
 * lmdb keeps its first `open` on the process-wide native add-on, so the second test file of a Jest worker would create
 * stores in a realm that is already gone. Deleting that function makes each test file set its own. The import uses a
 * path, because Jest maps the package name to this file; a file that imports no store does not load the package.
 */
import { nativeAddon } from '../../node_modules/lmdb/node-index.js'

nativeAddon.open = undefined

export * from '../../node_modules/lmdb/node-index.js'
