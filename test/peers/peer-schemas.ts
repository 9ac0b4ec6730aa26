/**
 * Released versions of host and worker as they were recorded: the schemas of their frames (`schemas.jsonl`, a frame a
 * line), and what they said to each other (`conversation.jsonl`, a message a line).
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createChecker, removeUnknownKeys } from '../../protocol/parse.ts'
import type { Shape } from '../../protocol/schema-errors.ts'

export interface RecordedFrame {
  readonly from: 'worker' | 'host'
  readonly type: string
  readonly schema: Shape
}

/** A frame that a host and a worker of the same version exchanged. */
export interface RecordedMessage {
  /** 1, 2, … in the order in which they were opened. */
  readonly connection: number
  readonly from: 'worker' | 'host'
  readonly frame: { readonly type: string; readonly [key: string]: unknown }
}

/** `closed`: its readers refuse keys that they do not know. */
export const PEERS = [
  { version: 'c2680b1', reads: 'closed' },
  { version: '1977b5c7', reads: 'open' },
] as const
export type Peer = (typeof PEERS)[number]
export type PeerVersion = Peer['version']

export const peerFile = (version: PeerVersion, name: string): string =>
  join(import.meta.dirname, version, name)

export const readJsonLines = (file: string): unknown[] =>
  readFileSync(file, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line): unknown => JSON.parse(line))

export const recordedFrames = (version: PeerVersion): RecordedFrame[] =>
  // Only recordings have this name.
  readJsonLines(peerFile(version, 'schemas.jsonl')) as RecordedFrame[]

export const recordedConversation = (version: PeerVersion): RecordedMessage[] =>
  readJsonLines(peerFile(version, 'conversation.jsonl')) as RecordedMessage[]

/** Says why a peer of this version does not read the frame; undefined when it does, or ignores a frame of its type. */
export function problemOfPeer(
  { version, reads }: Peer,
  from: 'worker' | 'host',
  frame: object,
): string | undefined {
  const type = String(Reflect.get(frame, 'type'))
  const recorded = recordedFrames(version).find(
    (candidate) => candidate.from === from && candidate.type === type,
  )
  if (recorded === undefined) return reads === 'open' ? undefined : `/type: ${type} is unknown`
  const { schema } = recorded
  const checked = createChecker(schema)(reads === 'open' ? removeUnknownKeys(schema, frame) : frame)
  return checked.ok ? undefined : checked.error
}
