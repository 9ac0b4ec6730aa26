/**
 * lmdb-js as one would use it by hand: puts of one turn share a transaction, and whoever put waits for its sync.
 *
 * The options are those of the store. With `overlappingSync` off, the promise of a put is the flush itself.
 */
import { open } from 'lmdb'

export interface GroupCommit {
  put(key: string, value: Uint8Array): Promise<boolean>
  close(): Promise<void>
}

export function groupCommit(folder: string): GroupCommit {
  const root = open({
    path: folder,
    noSubdir: false,
    maxDbs: 64,
    mapSize: 64 * 1024 ** 3,
    overlappingSync: false,
    encoding: 'binary',
  })
  const table = root.openDB<Uint8Array, string>({ name: 'life', encoding: 'binary' })
  return {
    put: (key, value) => table.put(key, value),
    close: () => root.close(),
  }
}
