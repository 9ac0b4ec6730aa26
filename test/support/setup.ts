/**
 * Runs before every test file.
 *
 * lmdb keeps its first `open` on the process-wide native add-on, so the second test file of a Jest worker would create
 * stores in a realm that is already gone. Deleting that function makes each test file set its own.
 */
import * as lmdb from 'lmdb'

// Not in lmdb's types: the add-on is an implementation detail that its ESM build happens to export.
const { nativeAddon } = lmdb as unknown as { nativeAddon: { open?: unknown } }
nativeAddon.open = undefined
