/** Buttons. One that is not available can still be focused, and says its reason. */
import { type Signal, useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'
import { showError } from './toasts.ts'

export type ButtonKind = 'plain' | 'primary' | 'plain-quiet' | 'destructive' | 'link'

export interface ButtonProps {
  readonly kind?: ButtonKind
  /** The button is busy, and cannot be pressed again, until a returned promise has settled; a rejection is shown. */
  readonly act: () => void | Promise<void>
  /** Why the act is not available now; it is read out and shown as the tooltip. */
  readonly unavailable?: string | undefined
  /** The words while the act goes on, such as `Retrying`. */
  readonly busyWord?: string
  /** The act goes on, and was started by something else, such as a key. */
  readonly busy?: boolean
  /** For a toggle. */
  readonly pressed?: boolean
  /** For a button without words. */
  readonly label?: string
  readonly small?: boolean
  readonly autoFocus?: boolean
  readonly children: ComponentChildren
}

interface OpenButtonProps {
  readonly isOpen: Signal<boolean>
  readonly children: ComponentChildren
}

/** A button like a link, which shows the rest. */
export const OpenButton = ({ isOpen, children }: OpenButtonProps) => (
  <Button
    kind="link"
    act={() => {
      isOpen.value = true
    }}
  >
    {children}
  </Button>
)

export function Button(props: ButtonProps) {
  const { kind = 'plain', act, unavailable, busyWord, pressed, label, small = false } = props
  const reasonId = useId()
  const isActing = useSignal(false)
  const isBusy = isActing.value || props.busy === true
  const isUnavailable = unavailable !== undefined

  async function press(): Promise<void> {
    if (isUnavailable || isBusy || isActing.value) return
    isActing.value = true
    try {
      await act()
    } catch (error) {
      showError(error)
    } finally {
      isActing.value = false
    }
  }

  return (
    <>
      <button
        type="button"
        class={`button ${kind === 'plain' ? '' : kind}${small ? ' small' : ''}`}
        aria-disabled={isUnavailable ? 'true' : undefined}
        aria-describedby={isUnavailable ? reasonId : undefined}
        aria-pressed={pressed}
        aria-label={label}
        aria-busy={isBusy ? 'true' : undefined}
        title={unavailable ?? label}
        autofocus={props.autoFocus}
        onClick={() => void press()}
      >
        {isBusy && busyWord !== undefined ? (
          <>
            <span class="busy-ring" aria-hidden="true" /> {busyWord}
          </>
        ) : (
          props.children
        )}
      </button>
      {isUnavailable && (
        <span id={reasonId} class="visually-hidden">
          {unavailable}
        </span>
      )}
    </>
  )
}
