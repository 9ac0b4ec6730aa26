/**
 * Modal dialogs: questions before acts that destroy, and forms.
 *
 * A dialog is shown by a call and returns what the person chose. The focus goes back to where it was. Escape and a
 * click beside the dialog keep everything as it is. A click counts as beside when it both began and ended there.
 */
import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { Button } from './button.tsx'

interface ShownDialog {
  /** A dialog that opens while another closes gets an element of its own. */
  readonly key: number
  readonly content: (close: () => void) => ComponentChildren
  readonly isWide: boolean
  readonly onClose: () => void
}

const shown = signal<readonly ShownDialog[]>([])
let lastKey = 0

export interface DialogOptions {
  readonly wide?: boolean
}

/** Resolves when the dialog has closed. The content closes itself with its argument. */
export function showDialog(
  content: (close: () => void) => ComponentChildren,
  { wide = false }: DialogOptions = {},
): Promise<void> {
  return new Promise((resolve) => {
    lastKey += 1
    const dialog: ShownDialog = {
      key: lastKey,
      content,
      isWide: wide,
      onClose: () => {
        shown.value = shown.value.filter((open) => open !== dialog)
        resolve()
      },
    }
    shown.value = [...shown.value, dialog]
  })
}

export interface DestructiveQuestion {
  /** The question with the name: `Revoke kestrel-01?` */
  readonly title: string
  /** The loss, in numbers. */
  readonly loses: ComponentChildren
  /** The safe button: `Keep worker`. */
  readonly keep: string
  /** The verb and the noun: `Revoke worker`. */
  readonly act: string
}

/** Whether the person chose the destructive act. */
export async function askBefore({ title, loses, keep, act }: DestructiveQuestion): Promise<boolean> {
  let isAgreed = false
  await showDialog((close) => (
    <>
      <h2>{title}</h2>
      <div class="quiet">{loses}</div>
      <div class="dialog-acts">
        <Button act={close} autoFocus>
          {keep}
        </Button>
        <Button
          kind="destructive"
          act={() => {
            isAgreed = true
            close()
          }}
        >
          {act}
        </Button>
      </div>
    </>
  ))
  return isAgreed
}

/** Stands once in the page. */
export function Dialogs() {
  return (
    <>
      {shown.value.map((dialog) => (
        <DialogFrame key={dialog.key} dialog={dialog} />
      ))}
    </>
  )
}

function DialogFrame({ dialog: { content, isWide, onClose } }: { readonly dialog: ShownDialog }) {
  const element = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const opener = document.activeElement
    element.current?.showModal()
    return () => {
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus()
    }
  }, [])
  // The browser tells of its own close in a later task, and an act of the palette opens the next dialog before it.
  const close = () => {
    element.current?.close()
    onClose()
  }
  const beganBeside = useRef(false)
  // The backdrop and the padding are the same element to a listener, so the place tells them apart.
  const isBeside = ({ target, clientX: x, clientY: y }: MouseEvent): boolean => {
    if (element.current === null || target !== element.current) return false
    const { left, right, top, bottom } = element.current.getBoundingClientRect()
    return x < left || x > right || y < top || y > bottom
  }
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape does the same by the browser
    <dialog
      ref={element}
      class={isWide ? 'wide' : ''}
      onClose={onClose}
      onPointerDown={(event) => {
        beganBeside.current = isBeside(event)
      }}
      onClick={(event) => {
        if (beganBeside.current && isBeside(event)) close()
      }}
    >
      {content(close)}
    </dialog>
  )
}
