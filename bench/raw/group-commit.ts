/**
 * lmdb-js used by hand: puts in the same turn of the event loop share a transaction, and each caller waits for its
 * sync.
 *
 * The options are those of the store. With `overlappingSync` off, the promise of a put is the flush itself. Objects
 * use lmdb's own encoder with shared structures, which needs the fewest bytes.
 */
import { open } from 'lmdb'

export interface GroupCommit<V> {
  put(key: string, value: V): Promise<boolean>
  remove(key: string): Promise<boolean>
  get(key: string): V | undefined
  /** The length of a value on disk. */
  bytesOf(key: string): number
  close(): Promise<void>
}

const STRUCTURES = Symbol.for('structures')

export const groupCommit = {
  /** Values that are objects, encoded at every put. */
  ofRecords: <V>(folder: string): GroupCommit<V> =>
    openTable(folder, { encoding: 'msgpack', sharedStructuresKey: STRUCTURES }),
  /** Values that are bytes, stored unchanged. */
  ofBytes: (folder: string): GroupCommit<Uint8Array> => openTable(folder, { encoding: 'binary' }),
}

function openTable<V>(
  folder: string,
  encoded: { encoding: 'msgpack' | 'binary'; sharedStructuresKey?: symbol },
): GroupCommit<V> {
  const root = open({
    path: folder,
    noSubdir: false,
    maxDbs: 64,
    mapSize: 64 * 1024 ** 3,
    overlappingSync: false,
    encoding: 'binary',
  })
  const table = root.openDB<V, string>({ name: 'snapshot', ...encoded })
  return {
    put: (key, value) => table.put(key, value),
    remove: (key) => table.remove(key),
    get: (key) => table.get(key),
    bytesOf: (key) => table.getBinary(key)?.length ?? 0,
    close: () => root.close(),
  }
}
