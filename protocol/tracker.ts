/** The issue tracker as the dashboard sees it: its connection state and its projects. */
import Type, { type Static } from 'typebox'
import { LABELS_MAX } from './limits.ts'
import { boundedList, ForeignId, Link, Name, record, stringEnum, Text } from './schema-helpers.ts'

export const TrackerStatus = record('TrackerStatus', {
  state: stringEnum(
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
  teams: boundedList(Name, LABELS_MAX),
})
export type TrackerProject = Static<typeof TrackerProject>
