/** The issue tracker as the dashboard sees it: its connection state and its projects. */
import Type, { type Static } from 'typebox'
import { LABELS_MAX } from './limits.ts'
import {
  boundedList,
  Count,
  ForeignId,
  Instant,
  Link,
  Name,
  record,
  stringEnum,
  Text,
} from './schema-helpers.ts'

export const TrackerStatus = record('TrackerStatus', {
  state: stringEnum(
    ['disconnected', 'connected', 'auth-error', 'refresh-failing'],
    'auth-error needs a person to reconnect; refresh-failing cures itself.',
  ),
  error: Type.Optional(Text),
  /** When the tracker last answered with its tickets. */
  lastPollAt: Type.Optional(Instant),
  /** Absent while a poll is under way and while polling is paused. */
  nextPollAt: Type.Optional(Instant),
  /** How many tickets the last poll listed, and how many of them are eligible. */
  seen: Type.Optional(Count),
  eligible: Type.Optional(Count),
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
