/** The issue tracker as the dashboard sees it: is it reachable, and which projects has it. */
import Type, { type Static } from 'typebox'
import { LABELS_MAX } from './limits.ts'
import { ForeignId, Link, list, Name, record, Text, words } from './schema-helpers.ts'

export const TrackerStatus = record('TrackerStatus', {
  state: words(
    ['disconnected', 'connected', 'auth-error', 'refresh-failing'],
    'auth-error needs a person to reconnect; refresh-failing cures itself.',
  ),
  error: Type.Optional(Text),
})
export type TrackerStatus = Static<typeof TrackerStatus>

export const TrackerProject = record('TrackerProject', {
  id: ForeignId,
  name: Name,
  key: Type.Optional(Name),
  url: Type.Optional(Link),
  state: Type.Optional(Name),
  teams: list(Name, LABELS_MAX),
})
export type TrackerProject = Static<typeof TrackerProject>
