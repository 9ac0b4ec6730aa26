/** The names of the tables of the database, which never change. */

export const TABLE = {
  meta: 'meta',
  runs: 'runs',
  byStatus: 'runs-by-status',
  byTicket: 'runs-by-ticket',
  keyValues: 'facts',
  smallLogs: 'events-small',
  eventChunks: 'events-tail',
  eventFiles: 'events-log',
  fileSums: 'events-sums',
} as const
/** The table of the encoder, which has no rows. */
export const CODEC_TABLE = 'codec'
/** Each kind of actor has a table of its own. */
export const SNAPSHOT_PREFIX = 'life:'

const KNOWN: ReadonlySet<string> = new Set([...Object.values(TABLE), CODEC_TABLE])

export const isTableName = (name: string): boolean => KNOWN.has(name) || name.startsWith(SNAPSHOT_PREFIX)

/** The tables that every database of the present format has, of which these are missing. */
export const missingTables = (names: ReadonlySet<string>): string[] =>
  [...KNOWN].filter((name) => !names.has(name))
