/** The middle of the page: the chosen actor, its chart, how its state can be left, its deadlines and its context. */
import { now } from '../elements/moments.tsx'
import { Empty, Skeleton } from '../elements/placeholder.tsx'
import { formatClock, formatDuration } from '../text/times.ts'
import { countFields } from './causes.ts'
import { ChartView } from './chart-view.tsx'
import { charts, exitsOf } from './charts.ts'
import { type ActorMoment, actorToOpen, momentOf } from './model.ts'
import {
  addressOfActor,
  chosenActor,
  chosenActorId,
  chosenRecord,
  cursor,
  model,
  modelInPlace,
  source,
} from './state.ts'

export function ActorView() {
  const { histories } = model()
  const actor = chosenActor.value
  if (actor === undefined) return <NotThere id={chosenActorId.value} />
  const history = histories.get(actor.id)
  if (history === undefined) return <Skeleton rows={4} />
  const moment = momentOf(history, cursor.value)
  return (
    <>
      <header class="actor-head">
        <h2>
          <span class="mono-title">
            {actor.kind} {actor.key}
          </span>
        </h2>
        <span class="state-tag">{moment.isOver ? `${moment.state}, over` : moment.state}</span>
        <Entered moment={moment} />
      </header>
      <Description kind={actor.kind} moment={moment} />
      <ChartView kind={actor.kind} moment={moment} />
      <div class="actor-facts" tabIndex={0} role="group" aria-label="State, deadlines and context">
        <Exits kind={actor.kind} moment={moment} />
        <Deadlines moment={moment} />
        <Context moment={moment} hidden={history.base.hidden} />
      </div>
    </>
  )
}

/** A link may name an actor that has ended before this page was opened. */
function NotThere({ id }: { readonly id: string }) {
  if (!modelInPlace().isComplete) return <Skeleton rows={4} />
  const latest = actorToOpen(modelInPlace())
  if (id === '' || latest === undefined)
    return <Empty title="No actor is chosen">Choose one in the list of actors.</Empty>
  return (
    <Empty title={`${id} is not alive`}>
      The actor has ended, or never was. <a href={addressOfActor(latest.id)}>Show what happened last</a>
    </Empty>
  )
}

function Entered({ moment: { entered } }: { readonly moment: ActorMoment }) {
  if (entered === undefined) return <span class="quiet">since before the inspector was opened</span>
  const isLive = cursor.value === undefined && source.value.is === 'live'
  return (
    <span class="quiet">
      {isLive ? `for ${formatDuration(now.value - entered.at)}` : `since ${formatClock(entered.at)}`}
      {entered.name !== '' && (
        <>
          , by{' '}
          <button type="button" class="link" onClick={() => (chosenRecord.value = entered.n)}>
            {entered.name}
          </button>
        </>
      )}
    </span>
  )
}

function Description({ kind, moment }: { readonly kind: string; readonly moment: ActorMoment }) {
  const state = charts.value?.[kind]?.states.find(({ path }) => path === moment.state)
  if (state?.description === undefined || moment.isOver) return null
  return <p class="quiet description">{state.description}</p>
}

function Exits({ kind, moment }: { readonly kind: string; readonly moment: ActorMoment }) {
  const chart = charts.value?.[kind]
  const exits = chart === undefined || moment.isOver ? [] : exitsOf(chart, moment.state)
  return (
    <section>
      <h2>Leaves {moment.state} on</h2>
      {exits.length === 0 && <p class="quiet">Nothing leads out of it.</p>}
      <dl class="facts">
        {exits.map(({ to, events }) => (
          <div key={to}>
            <dt>→ {to}</dt>
            <dd class="quiet">{events.join(', ')}</dd>
          </div>
        ))}
      </dl>
    </section>
  )
}

function Deadlines({ moment }: { readonly moment: ActorMoment }) {
  const deadlines = Object.entries(moment.deadlines)
  const isLive = cursor.value === undefined && source.value.is === 'live'
  return (
    <section>
      <h2>Deadlines</h2>
      {deadlines.length === 0 && <p class="quiet">None is pending.</p>}
      <dl class="facts">
        {deadlines.map(([name, at]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd class="mono">{isLive ? formatDuration(Math.max(0, at - now.value)) : formatClock(at)}</dd>
          </div>
        ))}
      </dl>
    </section>
  )
}

function Context({ moment, hidden }: { readonly moment: ActorMoment; readonly hidden: number }) {
  const fields = Object.entries(moment.context)
  const { shown, all } = countFields(moment.context, hidden)
  return (
    <section>
      <h2>
        Context{' '}
        <span class="faint">
          {shown} of {all} fields
        </span>
      </h2>
      {fields.length === 0 && <p class="quiet">It has none.</p>}
      <dl class="facts">
        {fields.map(([name, value]) => (
          <div key={name}>
            <dt class="ellipsis" title={name}>
              {name}
            </dt>
            <dd class="mono ellipsis" title={String(value)}>
              {String(value)}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  )
}
